// Every permission that this template gives, on one page. Each is at the resource it is for, never at the group.
param appPrincipalId string

@description('Empty: whoever deploys gets nothing.')
param deployerId string
param deployerType string

@description('The account that holds the state.')
param storageName string

@description('The account with the deployment package and the host\'s own blobs. Empty: the same one.')
param hostStorageName string
param insightsName string

@description('Empty: Azure Storage is the durable backend.')
param schedulerName string

@description('Empty: no model was made here.')
param openAiName string

// Built-in, the same in every subscription. tests/infra checks each id against its name.
var storageBlobDataOwner = 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
var storageBlobDataContributor = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
var storageBlobDataReader = '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'
var storageQueueDataContributor = '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
var storageTableDataContributor = '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
var storageTableDataReader = '76199698-9eea-4c19-bc75-cec21354c6b6'
var monitoringMetricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb'
var durableTaskDataContributor = '0ad04412-c4d5-4796-b79c-f76d14c8d402'
var cognitiveServicesOpenAIUser = '5e0bd9bd-7b93-4f28-af87-19fc36ad61bd'

// Queues are used by nothing but the durable backend in Azure Storage, which lies in the host's account, as its tables do.
var queues = empty(schedulerName) ? [storageQueueDataContributor] : []

// Owner, not Contributor, where the host is: it takes leases on its own blobs, and Owner is what Microsoft documents for it.
var appOnOneAccount = concat(
  [
    storageBlobDataOwner
    storageTableDataContributor
  ],
  queues
)
var appOnState = [
  storageBlobDataContributor
  storageTableDataContributor
]
// Tables: the host writes diagnostic events, and logs a 403 each time where it may not (azure-functions-host #10995).
var appOnHost = concat(
  [
    storageBlobDataOwner
    storageTableDataContributor
  ],
  queues
)

var deployerOnStorage = [
  storageBlobDataReader
  storageTableDataReader
]

// What is off has a name all the same: Azure checks names before it looks at conditions, and an empty one is none
// (Azure/bicep #1492, #9594).
var nothing = 'none'

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: storageName
}

resource hostStorage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = if (!empty(hostStorageName)) {
  name: empty(hostStorageName) ? nothing : hostStorageName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource scheduler 'Microsoft.DurableTask/schedulers@2026-02-01' existing = if (!empty(schedulerName)) {
  name: empty(schedulerName) ? nothing : schedulerName
}

resource openai 'Microsoft.CognitiveServices/accounts@2025-06-01' existing = if (!empty(openAiName)) {
  name: empty(openAiName) ? nothing : openAiName
}

// ---- the app ------------------------------------------------------------------------------------------------------

resource appStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for id in (empty(hostStorageName) ? appOnOneAccount : appOnState): {
    name: guid(storage.id, appPrincipalId, id)
    scope: storage
    properties: {
      principalId: appPrincipalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', id)
    }
  }
]

resource appHostStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for id in (empty(hostStorageName) ? [] : appOnHost): {
    name: guid(hostStorage.id, appPrincipalId, id)
    scope: hostStorage
    properties: {
      principalId: appPrincipalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', id)
    }
  }
]

resource appInsights 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, appPrincipalId, monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', monitoringMetricsPublisher)
  }
}

// Contributor and not Worker: the app starts and ends orchestrations, it does not only run them.
resource appScheduler 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(schedulerName)) {
  name: guid(scheduler.id, appPrincipalId, durableTaskDataContributor)
  scope: scheduler
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', durableTaskDataContributor)
  }
}

resource appOpenAi 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(openAiName)) {
  name: guid(openai.id, appPrincipalId, cognitiveServicesOpenAIUser)
  scope: openai
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', cognitiveServicesOpenAIUser)
  }
}

// ---- whoever deploys, when asked for ------------------------------------------------------------------------------

resource deployerStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for id in (empty(deployerId) ? [] : deployerOnStorage): {
    name: guid(storage.id, deployerId, id)
    scope: storage
    properties: {
      principalId: deployerId
      principalType: deployerType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', id)
    }
  }
]

// The dashboard can also terminate and purge: that is what it is for when something is stuck.
resource deployerScheduler 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(deployerId) && !empty(schedulerName)) {
  name: guid(scheduler.id, deployerId, durableTaskDataContributor)
  scope: scheduler
  properties: {
    principalId: deployerId
    principalType: deployerType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', durableTaskDataContributor)
  }
}

resource deployerOpenAi 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(deployerId) && !empty(openAiName)) {
  name: guid(openai.id, deployerId, cognitiveServicesOpenAIUser)
  scope: openai
  properties: {
    principalId: deployerId
    principalType: deployerType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', cognitiveServicesOpenAIUser)
  }
}
