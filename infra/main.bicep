// What `azd up` makes: one resource group that holds everything, so that `azd down` leaves nothing behind.
// Parameters come from main.parameters.json, which reads azd's environment; docs/deploy.md has the table of them.
targetScope = 'subscription'

// ---- where, and for whom ------------------------------------------------------------------------------------------

@minLength(1)
@maxLength(64)
@description('Name of the azd environment. It names the resource group and is part of every unique name.')
param environmentName string

@minLength(1)
@description('Region of everything that has no region of its own below. It must offer Flex Consumption.')
@metadata({
  azd: {
    type: 'location'
  }
})
param location string

@description('Object id of whoever deploys. azd sets it; only used with deployerAccess.')
param principalId string = ''

@allowed([
  'User'
  'Group'
  'ServicePrincipal'
])
@description('Kind of principalId. A pipeline sets ServicePrincipal: a wrong kind fails the role assignments.')
param principalType string = 'User'

@description('Lets whoever deploys read the stored state, use the Durable dashboard and call the model. Off: nobody reads user data.')
param deployerAccess bool = false

// ---- who may call -------------------------------------------------------------------------------------------------

@secure()
@description('Entries that `python -m hosting.keys new TENANT` prints (salted hashes, no keys), separated by commas. Empty: everybody gets 401.')
param apiKeys string = ''

@allowed([
  'tenant'
  'user'
])
@description('Who shares ids: everybody of a tenant, or each user alone.')
param isolation string = 'tenant'

@description('Client id of an Entra app registration. Given: Easy Auth is on and checks tokens made for it. Empty: API keys only.')
param easyAuthClientId string = ''

@description('Client ids of the applications that may call through Easy Auth, separated by commas. Empty: any for which the directory issues a token.')
param easyAuthAllowedApplications string = ''

// ---- size ---------------------------------------------------------------------------------------------------------

@allowed([
  512
  2048
  4096
])
@description('Memory of an instance in MB. It comes with 0.25, 1 or 2 cores.')
param instanceMemoryMB int = 2048

@minValue(40)
@maxValue(1000)
@description('Most instances at a time. 40 of 2048 MB are 40 cores of the 250 that a subscription has per region.')
param maximumInstanceCount int = 40

@minValue(1)
@maxValue(250)
@description('HTTP requests, open streams included, that one instance takes at a time. modules/app.bicep says why 16. More than HOSTING_MAX_RUNS_PER_TENANT (250) would make the app refuse what the platform could scale out for.')
param httpConcurrency int = 16

@minValue(0)
@description('HTTP instances that are never scaled in: the remedy for cold starts. Billed day and night.')
param alwaysReadyHttp int = 0

@minValue(0)
@description('Instances for durable work that are never scaled in. Billed day and night.')
param alwaysReadyDurable int = 0

// ---- what a tenant may use, and how long it is kept (docs/limits.md, docs/retention.md) ---------------------------

@minValue(0)
@maxValue(1000000)
@description('Requests for a run that one tenant may send a minute, to each instance or with the next one to all. 0: no limit.')
param runsPerMinute int = 0

@description('Whether that number is meant for all instances together: they then count in the table.')
param runsPerMinuteShared bool = false

@minValue(0)
@maxValue(10000)
@description('Background runs that one tenant may have waiting or running. 0: no limit.')
param maxUnfinishedRuns int = 0

@minValue(0)
@maxValue(36500)
@description('Days that a chain of responses is kept after the last write to it. 0: for ever.')
param retentionDays int = 30

@minValue(0)
@maxValue(36500)
@description('The same for Conversation objects.')
param conversationDays int = 30

@minValue(1)
@maxValue(8760)
@description('Hours that the events of a response can be read again after its end.')
param streamHours int = 24

@description('App settings that have no parameter, as NAME=value,NAME=value: the other ones of docs/deploy.md, and those of your own agent. No secrets, but references to them in a Key Vault. One that the template sets stays as it is.')
param extraSettings string = ''

// ---- what keeps the work ------------------------------------------------------------------------------------------

@allowed([
  'DurableTaskScheduler'
  'AzureStorage'
])
@description('What drives orchestrations: the Durable Task Scheduler, or queues and tables of the storage account.')
param durableBackend string = 'DurableTaskScheduler'

@description('Region of the scheduler. Empty: as location. The scheduler and Flex Consumption are not offered in the same regions.')
param schedulerLocation string = ''

@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
  'Standard_RAGRS'
  'Standard_RAGZRS'
])
@description('Redundancy of storage: three copies in one datacenter (LRS) or in three zones (ZRS); with G, behind that, in the paired region as well.')
param storageSku string = 'Standard_LRS'

@description('Gives the Functions host an account of its own for the deployment package and its secrets: who may write the state can then not change the code.')
param separateHostAccount bool = false

@minValue(0)
@description('Lifecycle rule, the net under the retention timer: days after its last write until a segment of a stream is deleted. 0: no rule. hooks/preprovision.sh says how many are too few.')
param streamDays int = 40

@minValue(0)
@description('Lifecycle rule: days without any access until a spilled value is deleted, also one of a conversation that lives. 0: no rule; the retention timer removes what nothing refers to.')
param payloadIdleDays int = 0

@minValue(0)
@maxValue(365)
@description('Days that a deleted blob can be brought back. 0: a DELETE of the API deletes for good.')
param softDeleteDays int = 0

// ---- options, each by one parameter -------------------------------------------------------------------------------

@description('Puts storage, the scheduler and the model behind private endpoints. The API itself stays reachable.')
param vnetEnabled bool = false

@description('Address space of that network, at least a /23. It must not overlap with one that it is to be peered with.')
param vnetAddressPrefix string = '10.0.0.0/16'

@description('Address ranges (CIDR), separated by commas, from which code may be deployed. Empty: from anywhere, by who has the role.')
param deployAddresses string = ''

@description('Model to deploy in Azure OpenAI, for example gpt-4.1-mini. Empty: no model is made, the offline demo agent answers.')
param openAiModel string = ''

@description('Version of the model. Empty: the default of the region.')
param openAiModelVersion string = ''

@description('SKU of the deployment. It decides where prompts are processed: GlobalStandard in any region of Azure, DataZoneStandard in the US or the EU, Standard in openAiLocation.')
param openAiSku string = 'GlobalStandard'

@minValue(1)
@description('Capacity of the deployment, in thousands of tokens a minute. It counts against the quota of the subscription.')
param openAiCapacity int = 30

@description('Region of the Azure OpenAI account. Empty: as location.')
param openAiLocation string = ''

@description('Endpoint of an Azure OpenAI account that exists. Given: none is made, and openAiModel names its deployment.')
param openAiEndpoint string = ''

@description('Who gets an e-mail when something is wrong (modules/alerts.bicep). Empty, and no webhook: no alerts are made.')
param alertEmail string = ''

@secure()
@description('Address that alerts are sent to as well, in the common alert schema: a chat, a pager. Secure, because such an address is often all that one needs to write there.')
param alertWebhook string = ''

@description('Where whoever is told finds what to do: address of docs/runbooks.md, without an anchor. The default is the path of the file.')
param runbooksUrl string = 'docs/runbooks.md'

@description('Asks the app from five places of the world, every ten minutes from each, whether it answers. Each call is billed, and wakes an instance.')
param availabilityTest bool = false

@minValue(0)
@description('Budget of the resource group a month, in the currency of the subscription: alertEmail is told at 80 and 100 percent. 0: none is made.')
param budgetAmount int = 0

@description('First day of the month that the budget begins with, as 2026-12-01. Azure refuses to change it later.')
param budgetStartDate string = ''

@minValue(-1)
@description('Cap of telemetry in GB a day; what comes after it is lost until the next day. -1: no cap.')
param logDailyQuotaGb int = 5

@minValue(30)
@maxValue(730)
@description('Days that telemetry, and the audit log, are kept.')
param logRetentionDays int = 30

@description('Logs each access to the state and the administration of the model, in a workspace of its own. All traffic of the app is in it.')
param auditDataAccess bool = false

@description('The app exports its own spans, measurements and logs, and the host its telemetry, by OpenTelemetry. Needs requirements-telemetry.txt in the package.')
param openTelemetry bool = false

// -------------------------------------------------------------------------------------------------------------------

var token = toLower(uniqueString(subscription().id, environmentName, location))
var tags = {
  'azd-env-name': environmentName
}
// Somebody to tell.
var alerting = !empty(alertEmail) || !empty(alertWebhook)
// Not in the output itself, where Bicep takes any use of a secure parameter for a secret.
var keysToo = !empty(apiKeys)
var useScheduler = durableBackend == 'DurableTaskScheduler'
var makeModel = !empty(openAiModel) && empty(openAiEndpoint)

// The hub's name has one home, host.json: the platform's scale controller reads the file, not the app settings.
var host = loadJsonContent('../host.json')
var taskHub = host.extensions.durableTask.hubName

// Names that the app (HOSTING_TABLE, HOSTING_CONTAINER), the lifecycle rules and the deployment must agree on.
var stateTable = 'agents'
var stateContainer = 'agents'
var packageContainer = 'app-package'

// Settings of the app (hosting/settings.py) that have a parameter. All others have a default in the code that suits most.
var options = {
  HOSTING_ISOLATION: isolation
  HOSTING_TABLE: stateTable
  HOSTING_CONTAINER: stateContainer
  HOSTING_RUNS_PER_MINUTE: string(runsPerMinute)
  HOSTING_RUNS_PER_MINUTE_SHARED: runsPerMinuteShared ? 'true' : 'false'
  HOSTING_MAX_UNFINISHED_RUNS_PER_TENANT: string(maxUnfinishedRuns)
  HOSTING_RETENTION_DAYS: string(retentionDays)
  HOSTING_CONVERSATION_DAYS: string(conversationDays)
  HOSTING_STREAM_HOURS: string(streamHours)
}

var extra = toObject(
  empty(extraSettings) ? [] : split(extraSettings, ','),
  setting => trim(substring(setting, 0, indexOf(setting, '='))),
  setting => trim(substring(setting, indexOf(setting, '=') + 1))
)

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module identity './modules/identity.bicep' = {
  name: 'identity'
  scope: group
  params: {
    name: 'id-${token}'
    location: location
    tags: tags
  }
}

module monitoring './modules/monitoring.bicep' = {
  name: 'monitoring'
  scope: group
  params: {
    workspaceName: 'log-${token}'
    insightsName: 'appi-${token}'
    location: location
    tags: tags
    dailyQuotaGb: logDailyQuotaGb
    retentionDays: logRetentionDays
  }
}

module storage './modules/storage.bicep' = {
  name: 'storage'
  scope: group
  params: {
    name: 'st${token}'
    location: location
    tags: tags
    sku: storageSku
    containers: separateHostAccount ? [stateContainer] : [stateContainer, packageContainer]
    tableNames: [
      stateTable
    ]
    softDeleteDays: softDeleteDays
    trackAccess: payloadIdleDays > 0
    publicAccess: !vnetEnabled
  }
}

// The host moves out and the state stays where it is, so that this can be switched on later.
module hostStorage './modules/storage.bicep' = if (separateHostAccount) {
  name: 'host-storage'
  scope: group
  params: {
    name: 'sth${token}'
    location: location
    tags: tags
    sku: storageSku
    containers: [
      packageContainer
    ]
    tableNames: []
    softDeleteDays: 0
    trackAccess: false
    publicAccess: !vnetEnabled
  }
}

module lifecycle './modules/lifecycle.bicep' = {
  name: 'lifecycle'
  scope: group
  params: {
    accountName: storage.outputs.name
    container: stateContainer
    streamDays: streamDays
    payloadIdleDays: payloadIdleDays
  }
}

module scheduler './modules/scheduler.bicep' = if (useScheduler) {
  name: 'scheduler'
  scope: group
  params: {
    name: 'dts-${token}'
    location: empty(schedulerLocation) ? location : schedulerLocation
    tags: tags
    taskHub: taskHub
    publicAccess: !vnetEnabled
  }
}

module openai './modules/openai.bicep' = if (makeModel) {
  name: 'openai'
  scope: group
  params: {
    name: 'oai-${token}'
    location: empty(openAiLocation) ? location : openAiLocation
    tags: tags
    model: openAiModel
    modelVersion: openAiModelVersion
    sku: openAiSku
    capacity: openAiCapacity
    publicAccess: !vnetEnabled
  }
}

module network './modules/network.bicep' = if (vnetEnabled) {
  name: 'network'
  scope: group
  params: {
    name: 'vnet-${token}'
    location: location
    tags: tags
    addressPrefix: vnetAddressPrefix
    storageId: storage.outputs.id
    hostStorageId: separateHostAccount ? hostStorage!.outputs.id : ''
    schedulerId: useScheduler ? scheduler!.outputs.id : ''
    openAiId: makeModel ? openai!.outputs.id : ''
  }
}

module rbac './modules/rbac.bicep' = {
  name: 'rbac'
  scope: group
  params: {
    appPrincipalId: identity.outputs.principalId
    deployerId: deployerAccess ? principalId : ''
    deployerType: principalType
    storageName: storage.outputs.name
    hostStorageName: separateHostAccount ? hostStorage!.outputs.name : ''
    insightsName: monitoring.outputs.insightsName
    schedulerName: useScheduler ? scheduler!.outputs.name : ''
    openAiName: makeModel ? openai!.outputs.name : ''
  }
}

module app './modules/app.bicep' = {
  name: 'app'
  scope: group
  params: {
    name: 'func-${token}'
    planName: 'plan-${token}'
    location: location
    tags: tags
    serviceName: 'api'
    identityName: identity.outputs.name
    insightsName: monitoring.outputs.insightsName
    storageName: separateHostAccount ? hostStorage!.outputs.name : storage.outputs.name
    packageContainer: packageContainer
    stateStorageName: separateHostAccount ? storage.outputs.name : ''
    apiKeys: apiKeys
    options: union(extra, options)
    schedulerEndpoint: useScheduler ? scheduler!.outputs.endpoint : ''
    openAiEndpoint: makeModel ? openai!.outputs.endpoint : openAiEndpoint
    openAiDeployment: openAiModel
    openTelemetry: openTelemetry
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    httpConcurrency: httpConcurrency
    alwaysReadyHttp: alwaysReadyHttp
    alwaysReadyDurable: alwaysReadyDurable
    subnetId: vnetEnabled ? network!.outputs.appSubnetId : ''
    deployAddresses: empty(deployAddresses) ? [] : split(replace(deployAddresses, ' ', ''), ',')
  }
  // The first start reads storage: without its roles the host fails, and a role can take ten minutes to be known.
  dependsOn: [
    rbac
  ]
}

module easyAuth './modules/easyauth.bicep' = {
  name: 'easyauth'
  scope: group
  params: {
    siteName: app.outputs.name
    clientId: easyAuthClientId
    allowedApplications: empty(easyAuthAllowedApplications) ? [] : split(replace(easyAuthAllowedApplications, ' ', ''), ',')
    keysToo: keysToo
  }
}

// Named after the environment: the name is what a mail begins with.
module alerts './modules/alerts.bicep' = if (alerting) {
  name: 'alerts'
  scope: group
  params: {
    name: 'alert-${environmentName}'
    location: location
    tags: tags
    environmentName: environmentName
    email: alertEmail
    webhook: alertWebhook
    runbooks: runbooksUrl
    insightsName: monitoring.outputs.insightsName
    storageId: storage.outputs.id
    hostStorageId: separateHostAccount ? hostStorage!.outputs.id : ''
    schedulerId: useScheduler ? scheduler!.outputs.id : ''
    openAiId: makeModel ? openai!.outputs.id : ''
    openTelemetry: openTelemetry
  }
}

module availability './modules/availability.bicep' = if (availabilityTest) {
  name: 'availability'
  scope: group
  params: {
    name: 'test-${environmentName}'
    location: location
    tags: tags
    insightsName: monitoring.outputs.insightsName
    appUri: app.outputs.uri
    receiversId: alerting ? alerts!.outputs.receiversId : ''
    runbooks: runbooksUrl
  }
}

module workbook './modules/workbook.bicep' = if (openTelemetry) {
  name: 'workbook'
  scope: group
  params: {
    location: location
    tags: tags
    insightsName: monitoring.outputs.insightsName
    environmentName: environmentName
  }
}

module budget './modules/budget.bicep' = if (budgetAmount > 0) {
  name: 'budget'
  scope: group
  params: {
    name: 'budget-${token}'
    amount: budgetAmount
    startDate: budgetStartDate
    email: alertEmail
  }
}

module audit './modules/audit.bicep' = if (auditDataAccess) {
  name: 'audit'
  scope: group
  params: {
    workspaceName: 'log-audit-${token}'
    location: location
    tags: tags
    retentionDays: logRetentionDays
    storageName: storage.outputs.name
    openAiName: makeModel ? openai!.outputs.name : ''
  }
}

// azd writes these into .azure/<environment>/.env, for hooks and for you. None is secret, and none has the name of a
// variable that main.parameters.json reads (but the region): an output would else come back as an input.
output AZURE_LOCATION string = location
output AZURE_TENANT_ID string = tenant().tenantId
output AZURE_RESOURCE_GROUP string = group.name
output AZURE_FUNCTION_NAME string = app.outputs.name
output SERVICE_API_NAME string = app.outputs.name
output SERVICE_API_URI string = app.outputs.uri
output AZURE_STORAGE_ACCOUNT_NAME string = storage.outputs.name
output APPLICATIONINSIGHTS_NAME string = monitoring.outputs.insightsName
output AZURE_WORKBOOK_URL string = openTelemetry ? workbook!.outputs.url : ''
output DURABLE_TASK_SCHEDULER_NAME string = useScheduler ? scheduler!.outputs.name : ''
output DURABLE_TASK_HUB_NAME string = taskHub
output AZURE_OPENAI_ENDPOINT string = makeModel ? openai!.outputs.endpoint : openAiEndpoint

// What is deployed of that which is hard to take back: hooks/preprovision compares it with what is to be deployed, so that an
// environment whose values are lost does not go back to the defaults unnoticed.
output DEPLOYED_HOSTING_API_KEYS string = keysToo ? 'true' : 'false'
output DEPLOYED_EASY_AUTH_CLIENT_ID string = empty(easyAuthClientId) ? 'false' : 'true'
output DEPLOYED_HOSTING_ISOLATION string = isolation
output DEPLOYED_HOSTING_RETENTION_DAYS string = string(retentionDays)
output DEPLOYED_HOSTING_CONVERSATION_DAYS string = string(conversationDays)
output DEPLOYED_STORAGE_SKU string = storageSku
output DEPLOYED_SEPARATE_HOST_ACCOUNT string = separateHostAccount ? 'true' : 'false'
output DEPLOYED_VNET_ENABLED string = vnetEnabled ? 'true' : 'false'
