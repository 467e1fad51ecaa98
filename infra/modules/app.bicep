// The function app on Flex Consumption, and every app setting it has.
param name string
param planName string
param location string
param tags object

@description('Key of the service in azure.yaml: azd deploys the code to the resource that carries it as a tag.')
param serviceName string
param identityName string
param insightsName string
@description('The account of the host, which also has the deployment package.')
param storageName string
param packageContainer string

@description('The account that holds the state. Empty: the same one.')
param stateStorageName string

@secure()
param apiKeys string

@description('Further settings of the app, by name.')
param options object

@description('Empty: Azure Storage is the durable backend.')
param schedulerEndpoint string

@description('Empty: no model, the demo agent answers.')
param openAiEndpoint string
param openAiDeployment string

@description('The app exports its own telemetry, and the host leaves the logs of the app to it.')
param openTelemetry bool
param instanceMemoryMB int
param maximumInstanceCount int
param httpConcurrency int
param alwaysReadyHttp int
param alwaysReadyDurable int

@description('Empty: no virtual network.')
param subnetId string

@description('Address ranges from which code may be deployed. Empty: any, and whoever has the role.')
param deployAddresses array

// The scale controller learns of the backend from the file host.json, which can name one only, and that is the scheduler's
// place. So with Azure Storage one instance is always there to look at the queues (docs/deploy.md, "The durable backend").
var durableInstances = empty(schedulerEndpoint) ? max(alwaysReadyDurable, 1) : alwaysReadyDurable

var readyForHttp = [
  {
    name: 'http'
    instanceCount: alwaysReadyHttp
  }
]
var readyForDurable = [
  {
    name: 'durable'
    instanceCount: durableInstances
  }
]

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: storageName
}

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
  }
}

resource site 'Microsoft.Web/sites@2024-11-01' = {
  name: name
  location: location
  tags: union(tags, {
    'azd-service-name': serviceName
  })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    // Who reads the secrets that app settings refer to; without it a system-assigned identity would, and there is none.
    keyVaultReferenceIdentity: identity.id
    publicNetworkAccess: 'Enabled'
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: {
      minTlsVersion: '1.2'
      ftpsState: 'Disabled'
      // Both always, so that clearing the parameter opens the endpoint again.
      scmIpSecurityRestrictionsDefaultAction: empty(deployAddresses) ? 'Allow' : 'Deny'
      scmIpSecurityRestrictions: [
        for (addresses, index) in deployAddresses: {
          name: 'deploy-${index}'
          action: 'Allow'
          priority: 100 + index
          ipAddress: addresses
        }
      ]
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${packageContainer}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identity.id
          }
        }
      }
      runtime: {
        name: 'python'
        version: '3.13'
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
        alwaysReady: concat(alwaysReadyHttp > 0 ? readyForHttp : [], durableInstances > 0 ? readyForDurable : [])
        triggers: {
          http: {
            // The platform's default for Python is 1: every open stream would then keep an instance to itself. A turn
            // waits for its model nearly all of its time, so one event loop serves many; memory is what bounds them.
            // 16 turns with 16 MiB of bodies and history each are 256 MiB, at which a process takes no more
            // (HOSTING_MAX_WORKING_BYTES): 1.1 GB of 2048 MB, as measured. With 512 MB instances take 4, and lower that
            // setting to a quarter. An agent that computes instead of waiting wants less, down to 1.
            perInstanceConcurrency: httpConcurrency
          }
        }
      }
    }
  }
}

// One PUT replaces the whole set: what is set in the portal and not here is gone after the next `azd provision`.
var settings = {
  // The host's storage and the app's. By account name: service URIs alone race with the identity at a cold start
  // (azure-functions-host #11787). A plain AzureWebJobsStorage, even an empty one, would win over all three.
  AzureWebJobsStorage__accountName: storage.name
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identity.properties.clientId

  APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.properties.clientId};Authorization=AAD'

  // Which identity DefaultAzureCredential takes: a user-assigned one is never guessed.
  AZURE_CLIENT_ID: identity.properties.clientId

  HOSTING_API_KEYS: apiKeys
}

// A state account of its own: the host knows nothing of it, the app reads which settings describe it.
var stateSettings = {
  HOSTING_STORAGE_CONNECTION: 'StateStorage'
  StateStorage__accountName: stateStorageName
  StateStorage__credential: 'managedidentity'
  StateStorage__clientId: identity.properties.clientId
}

// An app setting of this form overrides host.json for the host, so that one host.json serves the laptop and both backends.
var schedulerSettings = {
  DURABLE_TASK_SCHEDULER_CONNECTION_STRING: 'Endpoint=${schedulerEndpoint};Authentication=ManagedIdentity;ClientID=${identity.properties.clientId}'
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__type: 'azureManaged'
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName: 'DURABLE_TASK_SCHEDULER_CONNECTION_STRING'
}
var storageBackendSettings = {
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__type: 'AzureStorage'
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__connectionStringName: 'AzureWebJobsStorage'
  // How late an idle app may notice new work. The default of 30 s is far too late for a run that somebody waits for; each
  // idle instance pays with a transaction per queue (four and one) every two seconds. A busy queue is read at once.
  AzureFunctionsJobHost__extensions__durableTask__storageProvider__maxQueuePollingInterval: '00:00:02'
}
var telemetrySettings = {
  AzureFunctionsJobHost__telemetryMode: 'OpenTelemetry'
  PYTHON_ENABLE_OPENTELEMETRY: 'true'
}
var modelSettings = {
  AZURE_OPENAI_ENDPOINT: openAiEndpoint
  AZURE_OPENAI_MODEL: openAiDeployment
}

// User name and password would open the deployment endpoint beside the identities. (There is no FTP on Flex Consumption.)
resource scmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: site
  name: 'scm'
  properties: {
    allow: false
  }
}

resource appsettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'appsettings'
  // Of two values of one name the later one stays: what is set here wins over EXTRA_SETTINGS, which come with the options.
  properties: union(
    options,
    settings,
    empty(stateStorageName) ? {} : stateSettings,
    empty(schedulerEndpoint) ? storageBackendSettings : schedulerSettings,
    openTelemetry ? telemetrySettings : {},
    empty(openAiEndpoint) ? {} : modelSettings
  )
}

output name string = site.name
output uri string = 'https://${site.properties.defaultHostName}'
