// Alerts on what the platform itself measures of storage, of the scheduler and of the model: they need no telemetry and are not
// under its cap.
// docs/runbooks.md says what to do about each, under a heading of its name; tests/infra compares the two.
param name string
param tags object

@description('The action group that is told.')
param receiversId string

@description('Address or path of the page that says what to do.')
param runbooks string

@description('The account of the state.')
param storageId string

@description('The account of the host. Empty: the same one.')
param hostStorageId string

@description('Empty: Azure Storage is the durable backend.')
param schedulerId string

@description('Empty: no model was made here.')
param openAiId string

// Each value of a dimension is looked at by itself.
var storageRules = [
  {
    name: 'storage-availability'
    severity: 2
    says: 'Percent of calls to the storage account that did not end in an error of the service.'
    resource: storageId
    namespace: 'Microsoft.Storage/storageAccounts'
    metric: 'Availability'
    dimensions: []
    aggregation: 'Average'
    operator: 'LessThan'
    threshold: 99
    window: 'PT15M'
  }
  {
    name: 'storage-throttled'
    severity: 2
    says: 'Calls that the storage account refused because it, or one of its partitions, was at its limit, or that timed out in it.'
    resource: storageId
    namespace: 'Microsoft.Storage/storageAccounts'
    metric: 'Transactions'
    dimensions: [
      {
        name: 'ResponseType'
        operator: 'Include'
        values: [
          'ServerBusyError'
          'ServerTimeoutError'
          'ClientThrottlingError'
          'ClientAccountRequestThrottlingError'
          'ClientAccountBandwidthThrottlingError'
        ]
      }
    ]
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 20
    window: 'PT15M'
  }
]
// Without its own account the host does not start, and without its timers nothing is recovered.
var hostStorageRules = [
  {
    name: 'host-storage-availability'
    severity: 2
    says: 'Percent of calls to the storage account of the Functions host that did not end in an error of the service.'
    resource: hostStorageId
    namespace: 'Microsoft.Storage/storageAccounts'
    metric: 'Availability'
    dimensions: []
    aggregation: 'Average'
    operator: 'LessThan'
    threshold: 99
    window: 'PT15M'
  }
]
// What the smallest number of a quarter of an hour says is that the queue was never empty. A busy moment does not fire.
var schedulerRules = [
  {
    name: 'scheduler-orchestrations'
    severity: 2
    says: 'Orchestrations that were ready all the time, and nobody took them up: the app is not woken, or not let in.'
    resource: schedulerId
    namespace: 'Microsoft.DurableTask/schedulers'
    metric: 'OrchestratorPendingItems'
    dimensions: []
    aggregation: 'Minimum'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT15M'
  }
  {
    name: 'scheduler-activities'
    severity: 2
    says: 'Background runs that were ready all the time, and found no place: too few instances, or none.'
    resource: schedulerId
    namespace: 'Microsoft.DurableTask/schedulers'
    metric: 'ActivityPendingItems'
    dimensions: []
    aggregation: 'Minimum'
    operator: 'GreaterThan'
    threshold: 0
    window: 'PT15M'
  }
]
var modelRules = [
  {
    name: 'model-throttled'
    severity: 2
    says: 'Calls that the model refused with 429: its quota is used up, and turns fail.'
    resource: openAiId
    namespace: 'Microsoft.CognitiveServices/accounts'
    metric: 'AzureOpenAIRequests'
    dimensions: [
      {
        name: 'StatusCode'
        operator: 'Include'
        values: [
          '429'
        ]
      }
    ]
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 10
    window: 'PT15M'
  }
]

resource alerts 'Microsoft.Insights/metricAlerts@2018-03-01' = [
  for rule in concat(
    storageRules,
    empty(hostStorageId) ? [] : hostStorageRules,
    empty(schedulerId) ? [] : schedulerRules,
    empty(openAiId) ? [] : modelRules
  ): {
    name: '${name}-${rule.name}'
    location: 'global'
    tags: tags
    properties: {
      description: '${rule.says} What to do: ${runbooks}#${rule.name}'
      severity: rule.severity
      enabled: true
      scopes: [
        rule.resource
      ]
      evaluationFrequency: 'PT5M'
      windowSize: rule.window
      criteria: {
        'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
        allOf: [
          {
            criterionType: 'StaticThresholdCriterion'
            name: rule.name
            metricNamespace: rule.namespace
            metricName: rule.metric
            dimensions: rule.dimensions
            timeAggregation: rule.aggregation
            operator: rule.operator
            threshold: rule.threshold
            // Accounts that were made a moment ago have measured nothing yet.
            skipMetricValidation: true
          }
        ]
      }
      autoMitigate: true
      actions: [
        {
          actionGroupId: receiversId
        }
      ]
    }
  }
]
