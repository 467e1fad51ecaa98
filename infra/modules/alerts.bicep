// Who is told when something is wrong, and when. docs/runbooks.md says what to do about each, under a heading of its name;
// tests/infra compares the two.
param name string
param location string
param tags object

@description('So that those of two environments can be told apart.')
param environmentName string

@description('Empty: nobody gets a mail.')
param email string

@secure()
@description('Empty: nothing is called.')
param webhook string

@description('Address or path of the page that says what to do.')
param runbooks string
param insightsName string

@description('The account of the state.')
param storageId string

@description('The account of the host. Empty: the same one.')
param hostStorageId string

@description('Empty: Azure Storage is the durable backend.')
param schedulerId string

@description('Empty: no model was made here.')
param openAiId string

@description('The app exports measurements: without them only what the Functions host and the platform report can be looked at.')
param openTelemetry bool

// Each query gives one row with one number, also when there is nothing to count. The window is the time it looks at.
// source: app = what the app exports, only with openTelemetry; host = there without it, too; workspace = about telemetry itself.
// A measurement is one row a minute and instance: valueSum is the value of a gauge (value has no column in the workspace).
var rules = [
  {
    name: 'no-scan'
    source: 'host'
    severity: 1
    says: 'No recovery scan, due each minute, came to its end for 15 minutes: the app does not start, storage is away, or telemetry does not arrive.'
    // With telemetry of the app a scan that came to its end; without, a timer that ran: a scan may have failed in it.
    query: openTelemetry ? scans : timers
    operator: 'LessThan'
    threshold: 1
    window: 'PT15M'
  }
  {
    name: 'server-errors'
    source: 'host'
    severity: 2
    says: 'Percent of HTTP requests that were answered with 5xx, when three at least were.'
    // Executions of other triggers have no HTTP status; probes and the platform's pings would dilute the rest.
    query: '''
requests
| where toint(resultCode) >= 100 and name !has "readiness" and name !contains "/admin/" and url !contains "/admin/"
| summarize bad = sumif(itemCount, toint(resultCode) >= 500), total = sum(itemCount)
| project value = iff(bad >= 3, 100.0 * bad / total, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT15M'
  }
  {
    name: 'failed-turns'
    source: 'app'
    severity: 2
    says: 'Percent of turns that failed, when three at least did: the agent or its model. They are answered with 200.'
    query: '''
customMetrics
| where name == "hosting.turn.duration"
| summarize bad = sumif(valueCount, tostring(customDimensions["hosting.turn.status"]) == "failed"), total = sum(valueCount)
| project value = iff(bad >= 3, 100.0 * bad / total, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 10
    window: 'PT15M'
  }
  {
    name: 'waiting'
    source: 'app'
    severity: 1
    says: 'Seconds that a background run has waited for somebody to take it up, as the recovery scan sees it: nothing drives it, or there are too few instances.'
    query: '''
customMetrics
| where name == "hosting.task.oldest_waiting"
| summarize value = coalesce(max(valueSum), 0.0)
'''
    operator: 'GreaterThan'
    threshold: 120
    window: 'PT15M'
  }
  {
    name: 'poison'
    source: 'app'
    severity: 2
    says: 'How many processes have died at one unfinished background run: it may kill each one that works on it. The log names it.'
    query: '''
customMetrics
| where name == "hosting.task.most_crashes"
| summarize value = coalesce(max(valueSum), 0.0)
'''
    operator: 'GreaterThanOrEqual'
    threshold: 3
    window: 'PT15M'
  }
  {
    name: 'recoveries'
    source: 'app'
    severity: 3
    says: 'Attempts that were made again, or lost their lease. Deployments and scale-in make some.'
    query: '''
customMetrics
| where name in ("hosting.task.recoveries", "hosting.task.lease_losses")
| summarize value = coalesce(sum(valueSum), 0.0)
'''
    operator: 'GreaterThan'
    threshold: 50
    window: 'PT30M'
  }
  {
    name: 'storage'
    source: 'app'
    severity: 2
    says: 'Calls to storage that failed after their retries, or were denied.'
    query: '''
customMetrics
| where name == "hosting.storage.duration"
| where tostring(customDimensions["error.type"]) in ("StorageUnavailable", "StorageDenied")
| summarize value = coalesce(sum(valueCount), 0)
'''
    operator: 'GreaterThan'
    threshold: 20
    window: 'PT15M'
  }
  {
    name: 'unauthorized'
    source: 'app'
    severity: 3
    says: 'Requests that were answered with 401: a client without its key, or somebody who tries keys.'
    query: '''
customMetrics
| where name == "hosting.request.duration"
| summarize value = sumif(valueCount, toint(customDimensions["http.response.status_code"]) == 401)
'''
    operator: 'GreaterThan'
    threshold: 100
    window: 'PT15M'
  }
  {
    name: 'rate-limited'
    source: 'app'
    severity: 3
    says: 'Percent of POST requests that were answered with 429, when ten at least were: limits of a tenant or of the process.'
    query: '''
customMetrics
| where name == "hosting.request.duration" and tostring(customDimensions["http.request.method"]) == "POST"
| summarize bad = sumif(valueCount, toint(customDimensions["http.response.status_code"]) == 429), total = sum(valueCount)
| project value = iff(bad >= 10, 100.0 * bad / total, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 10
    window: 'PT15M'
  }
  {
    name: 'slow-first-event'
    source: 'app'
    severity: 3
    says: 'Seconds until the first event of the agent, 95th percentile, of twenty turns at least.'
    query: '''
dependencies
| extend seconds = todouble(customDimensions["hosting.turn.time_to_first_event"])
| where isnotnull(seconds)
| summarize turns = sum(itemCount), p95 = percentilew(seconds, itemCount, 95)
| project value = iff(turns >= 20, p95, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 15
    window: 'PT30M'
  }
  {
    name: 'retention'
    source: 'app'
    severity: 3
    says: 'The retention timer has not got through a page for 36 hours: nothing that has expired is removed. Counts from the 36th hour of telemetry on.'
    query: '''
traces
| summarize ticks = countif(message has "pages, removed" and timestamp > ago(36h)), oldest = min(timestamp)
| project value = iff(oldest < ago(36h), ticks, 1)
'''
    operator: 'LessThan'
    threshold: 1
    window: 'P2D'
  }
  {
    name: 'shorter-retention'
    source: 'app'
    severity: 2
    says: 'A lifetime has become shorter than it was. What is older will be removed for good, some days from now: the log line says when.'
    query: '''
traces
| summarize value = countif(message has "holds until")
'''
    operator: 'GreaterThan'
    threshold: 0
    window: 'P1D'
  }
  {
    name: 'telemetry-cap'
    source: 'workspace'
    severity: 1
    says: 'The daily cap of telemetry is reached: until tomorrow all other alerts that look at telemetry are blind.'
    query: '''
_LogOperation
| where Category =~ "Ingestion" and Detail has "OverQuota"
| summarize value = count()
'''
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT15M'
  }
]
var scans = '''
customMetrics
| where name == "hosting.task.backlog"
| summarize value = count()
'''
var timers = '''
requests
| where name has "task_recovery"
| summarize value = count()
'''

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

var mails = [
  {
    name: 'operator'
    emailAddress: email
    useCommonAlertSchema: true
  }
]
var hooks = [
  {
    name: 'webhook'
    serviceUri: webhook
    useCommonAlertSchema: true
  }
]

resource receivers 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: name
  location: 'Global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'agents'
    emailReceivers: empty(email) ? [] : mails
    webhookReceivers: empty(webhook) ? [] : hooks
  }
}

resource alerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for rule in rules: {
    name: '${name}-${rule.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: '${rule.name} (${environmentName})'
      description: '${rule.says} What to do: ${runbooks}#${rule.name}'
      severity: rule.severity
      // Made all the same, so that a rule which an earlier deployment made does not stay on.
      enabled: openTelemetry || rule.source != 'app'
      scopes: [
        rule.source == 'workspace' ? insights.properties.WorkspaceResourceId : insights.id
      ]
      evaluationFrequency: startsWith(rule.window, 'PT') ? 'PT5M' : 'PT1H'
      windowSize: rule.window
      criteria: {
        allOf: [
          {
            query: rule.query
            timeAggregation: 'Maximum'
            metricMeasureColumn: 'value'
            operator: rule.operator
            threshold: rule.threshold
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      autoMitigate: true
      // The tables are made with the first telemetry, which is after the first deployment.
      skipQueryValidation: true
      actions: {
        actionGroups: [
          receivers.id
        ]
      }
    }
  }
]

module platform './platform-alerts.bicep' = {
  name: 'platform-alerts'
  params: {
    name: name
    tags: tags
    receiversId: receivers.id
    runbooks: runbooks
    storageId: storageId
    hostStorageId: hostStorageId
    schedulerId: schedulerId
    openAiId: openAiId
  }
}

module health './health-alerts.bicep' = {
  name: 'health-alerts'
  params: {
    name: name
    tags: tags
    receiversId: receivers.id
    runbooks: runbooks
  }
}

output receiversId string = receivers.id
