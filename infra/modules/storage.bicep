// A storage account that takes no keys and shows nothing to the public, with private containers and tables in it.
param name string
param location string
param tags object
param sku string

@description('Private containers. The app makes its own at first use, too; made here, the first request does not pay for it.')
param containers array

param tableNames array
param softDeleteDays int

@description('Notes when a blob was last read, which the lifecycle rule for spilled values looks at; the first access to a blob in a day is billed for it.')
param trackAccess bool
param publicAccess bool

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: sku
  }
  properties: {
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    defaultToOAuthAuthentication: true
    isLocalUserEnabled: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: publicAccess ? 'Enabled' : 'Disabled'
    networkAcls: {
      defaultAction: publicAccess ? 'Allow' : 'Deny'
      // Behind a closed door the lifecycle rules may need this exception. Services that it lets in still need a role.
      bypass: publicAccess ? 'None' : 'AzureServices'
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    // Off by default, because DELETE of the API promises that the data is gone.
    deleteRetentionPolicy: softDeleteDays > 0 ? { enabled: true, days: softDeleteDays } : { enabled: false }
    lastAccessTimeTrackingPolicy: {
      enable: trackAccess
      name: 'AccessTimeTracking'
    }
  }
}

resource blobContainers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = [
  for container in containers: {
    parent: blobs
    name: container
    properties: {
      publicAccess: 'None'
    }
  }
]

resource tables 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource namedTables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' = [
  for table in tableNames: {
    parent: tables
    name: table
  }
]

output id string = account.id
output name string = account.name
