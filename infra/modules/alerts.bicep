// Who is told when something is wrong, and when. docs/operations.md says what to do about each; tests/infra compares the two.
param name string
param location string
param tags object
param email string
param insightsName string

@description('The app exports measurements: without them only what the Functions host reports can be looked at.')
param openTelemetry bool

// Each query gives one row with one number, also when there is nothing to count. The window is the time it looks at.
var fromTheHost = [
  {
    name: 'no-scan'
    severity: 1
    says: 'The recovery timer, due each minute, has not run for 15 minutes: the app does not start, or telemetry does not arrive.'
    query: '''
requests
| where name has "task_recovery"
| summarize value = count()
'''
    operator: 'LessThan'
    threshold: 1
    window: 'PT15M'
  }
  {
    name: 'server-errors'
    severity: 2
    says: 'Percent of requests that were answered with 5xx, when there are ten at least.'
    query: '''
requests
| summarize bad = countif(toint(resultCode) >= 500), total = count()
| project value = iff(bad >= 10, 100.0 * bad / total, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 5
    window: 'PT15M'
  }
]
var fromTheApp = [
  {
    name: 'failed-turns'
    severity: 2
    says: 'Percent of turns that failed, when there are ten at least: the agent or its model. They are answered with 200.'
    query: '''
customMetrics
| where name == "hosting.turn.duration"
| summarize bad = sumif(valueCount, tostring(customDimensions["hosting.turn.status"]) == "failed"), total = sum(valueCount)
| project value = iff(bad >= 10, 100.0 * bad / total, 0.0)
'''
    operator: 'GreaterThan'
    threshold: 10
    window: 'PT15M'
  }
  {
    name: 'waiting'
    severity: 2
    says: 'Longest time, in seconds, from the acceptance of a background run to its start: too few instances, or no driver.'
    query: '''
customMetrics
| where name == "hosting.task.queue_time"
| summarize value = coalesce(max(valueMax), 0.0)
'''
    operator: 'GreaterThan'
    threshold: 120
    window: 'PT15M'
  }
  {
    name: 'recoveries'
    severity: 3
    says: 'Attempts that were made again, lost their lease or had lost their driver. Deployments and scale-in make some.'
    query: '''
customMetrics
| where name in ("hosting.task.recoveries", "hosting.task.lease_losses", "hosting.task.redriven")
| summarize value = coalesce(sum(valueSum), 0.0)
'''
    operator: 'GreaterThan'
    threshold: 50
    window: 'PT30M'
  }
  {
    name: 'storage'
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
]

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource receivers 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: name
  location: 'Global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'agents'
    emailReceivers: [
      {
        name: 'operator'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

resource alerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for rule in concat(fromTheHost, openTelemetry ? fromTheApp : []): {
    name: '${name}-${rule.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: rule.name
      description: rule.says
      severity: rule.severity
      enabled: true
      scopes: [
        insights.id
      ]
      evaluationFrequency: 'PT5M'
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
