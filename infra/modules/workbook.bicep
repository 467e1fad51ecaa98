// The page that an operator opens first: what the app exports, as charts over one range of time. docs/operations.md,
// "A dashboard", says how to read each; tests/infra compares the two, and each query with what the app really exports.
param location string
param tags object
param insightsName string

@description('The environment, so that those of two can be told apart.')
param environmentName string

// The range of time is a parameter of the page; {Time:grain} is a width of bins that fits it. `series` are lines over time, a
// query for them gives a time, numbers, and at most one text; `table` shows rows as they are.
// The value of a gauge and the growth of a counter are in valueSum, as in alerts.bicep.
var charts = [
  {
    name: 'turns'
    title: 'Turns by status'
    kind: 'series'
    query: '''
customMetrics
| where name == "hosting.turn.duration"
| summarize turns = sum(valueCount) by bin(timestamp, {Time:grain}), status = tostring(customDimensions["hosting.turn.status"])
'''
  }
  {
    name: 'first-event'
    title: 'Seconds to the first event'
    kind: 'series'
    query: '''
dependencies
| extend seconds = todouble(customDimensions["hosting.turn.time_to_first_event"])
| where isnotnull(seconds)
| summarize p50 = percentilew(seconds, itemCount, 50), p95 = percentilew(seconds, itemCount, 95) by bin(timestamp, {Time:grain})
'''
  }
  {
    name: 'waiting'
    title: 'Background work: backlog, seconds that the oldest waits, most crashes'
    kind: 'series'
    query: '''
customMetrics
| where name in ("hosting.task.backlog", "hosting.task.oldest_waiting", "hosting.task.most_crashes")
| summarize most = max(valueSum) by bin(timestamp, {Time:grain}), name
'''
  }
  {
    name: 'recoveries'
    title: 'Attempts made again, leases lost'
    kind: 'series'
    query: '''
customMetrics
| where name in ("hosting.task.recoveries", "hosting.task.lease_losses")
| summarize times = sum(valueSum) by bin(timestamp, {Time:grain}), name
'''
  }
  {
    name: 'failures'
    title: 'Failed turns by kind'
    kind: 'series'
    query: '''
customMetrics
| where name == "hosting.turn.duration" and tostring(customDimensions["hosting.turn.status"]) == "failed"
| summarize turns = sum(valueCount) by bin(timestamp, {Time:grain}), failure = tostring(customDimensions["error.type"])
'''
  }
  {
    name: 'storage'
    title: 'Calls to storage that failed'
    kind: 'series'
    query: '''
customMetrics
| where name == "hosting.storage.duration" and isnotempty(customDimensions["error.type"])
| summarize calls = sum(valueCount) by bin(timestamp, {Time:grain}), failure = tostring(customDimensions["error.type"])
'''
  }
  {
    name: 'stream-lag'
    title: 'Seconds that followers are behind, at most'
    kind: 'series'
    query: '''
customMetrics
| where name == "hosting.stream.lag"
| summarize mean = sum(valueSum) / sum(valueCount), longest = max(valueMax) by bin(timestamp, {Time:grain})
'''
  }
  {
    name: 'errors'
    title: 'Errors and refusals by route'
    kind: 'table'
    query: '''
customMetrics
| where name == "hosting.request.duration" and toint(customDimensions["http.response.status_code"]) >= 400
| summarize requests = sum(valueCount)
    by status = toint(customDimensions["http.response.status_code"]), route = tostring(customDimensions["http.route"])
| order by requests desc
'''
  }
  {
    name: 'refusals'
    title: 'Who is refused (429, 503)'
    kind: 'table'
    query: '''
union requests, dependencies
| extend status = toint(customDimensions["http.response.status_code"]), route = tostring(customDimensions["http.route"])
| where isnotempty(route) and status in (429, 503)
| summarize requests = sum(itemCount) by tenant = tostring(customDimensions["hosting.tenant"]), status, route
| order by requests desc
'''
  }
  {
    name: 'tenants'
    title: 'Turns and tokens of each tenant'
    kind: 'table'
    query: '''
dependencies
| where isnotempty(customDimensions["hosting.turn.status"])
| extend tokens = coalesce(tolong(customDimensions["gen_ai.usage.input_tokens"]), 0)
    + coalesce(tolong(customDimensions["gen_ai.usage.output_tokens"]), 0)
| summarize turns = sum(itemCount), failed = sumif(itemCount, tostring(customDimensions["hosting.turn.status"]) == "failed"),
    tokens = sum(itemCount * tokens) by tenant = tostring(customDimensions["hosting.tenant"])
| order by tokens desc
'''
  }
]

// What the workbook's own format calls a chart (exported from the portal; there is no published schema of it).
var chartItems = [
  for chart in charts: {
    type: 3
    name: chart.name
    customWidth: '50'
    content: {
      version: 'KqlItem/1.0'
      title: chart.title
      query: chart.query
      visualization: chart.kind == 'series' ? 'timechart' : 'table'
      size: 0
      queryType: 0
      resourceType: 'microsoft.insights/components'
      timeContextFromParameter: 'Time'
    }
  }
]
var introduction = {
  type: 1
  name: 'introduction'
  content: {
    json: 'How to read this: docs/operations.md, "A dashboard". Without OPEN_TELEMETRY=true nothing comes in.'
  }
}
var time = {
  type: 9
  name: 'time'
  content: {
    version: 'KqlParameterItem/1.0'
    queryType: 0
    resourceType: 'microsoft.insights/components'
    parameters: [
      {
        id: guid('Time')
        version: 'KqlParameterItem/1.0'
        name: 'Time'
        type: 4
        isRequired: true
        value: {
          durationMs: 86400000
        }
        typeSettings: {
          allowCustom: true
          selectableValues: [
            { durationMs: 3600000 }
            { durationMs: 14400000 }
            { durationMs: 86400000 }
            { durationMs: 604800000 }
            { durationMs: 2592000000 }
          ]
        }
      }
    ]
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = {
  // Azure wants a GUID; the same one each time, so that a deployment changes the page and makes no second one.
  name: guid(insights.id, 'workbook')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    displayName: 'Agents, ${environmentName}'
    category: 'workbook'
    sourceId: insights.id
    serializedData: string({
      version: 'Notebook/1.0'
      items: concat([introduction, time], chartItems)
      fallbackResourceIds: [
        insights.id
      ]
    })
  }
}

output url string = '${environment().portal}/#@${tenant().tenantId}/resource${workbook.id}/workbook'
