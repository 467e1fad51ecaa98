// One storage account: the Functions host's own blobs, the deployment package, and the app's state.
param name string
param location string
param tags object
param sku string

@minLength(3)
@description('Table with sessions, turns, tasks and responses (HOSTING_TABLE).')
param table string

@minLength(3)
@description('Container with spilled values and stream segments (HOSTING_CONTAINER). The lifecycle rules are about this one alone.')
param container string

param packageContainer string

@minValue(2)
param streamDays int

@minValue(31)
param payloadIdleDays int

param softDeleteDays int
param publicAccess bool

// A lifecycle rule without a prefix is a rule for every blob of the account, the host's leases and the deployment
// package among them. So the prefix is written once, here, always ends in the slash, and the container has a name.
var statePrefix = '${container}/'

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
      bypass: 'None'
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    // Off by default, because DELETE of the API promises that the data is gone.
    deleteRetentionPolicy: softDeleteDays > 0 ? { enabled: true, days: softDeleteDays } : { enabled: false }
    // What the rule for spilled values looks at. One write a day and blob at most.
    lastAccessTimeTrackingPolicy: {
      enable: true
      name: 'AccessTimeTracking'
    }
  }
}

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: packageContainer
  properties: {
    publicAccess: 'None'
  }
}

// The app makes its container and table at first use, too; made here, the first request does not pay for it.
resource payloads 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: container
  properties: {
    publicAccess: 'None'
  }
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource state 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' = {
  parent: tables
  name: table
}

// The net under the app's own retention timer, for what a crash left behind. Days are the finest grain there is, and the
// platform runs the rules about once a day.
resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'streams'
          type: 'Lifecycle'
          definition: {
            filters: {
              // Stream segments are the only append blobs of the container.
              blobTypes: [
                'appendBlob'
              ]
              prefixMatch: [
                statePrefix
              ]
            }
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: streamDays
                }
              }
            }
          }
        }
        {
          name: 'payloads'
          type: 'Lifecycle'
          definition: {
            filters: {
              blobTypes: [
                'blockBlob'
              ]
              prefixMatch: [
                statePrefix
              ]
            }
            actions: {
              baseBlob: {
                delete: {
                  // Not by age: a spilled value is written once, and a conversation that goes on for months reads it.
                  daysAfterLastAccessTimeGreaterThan: payloadIdleDays
                }
              }
            }
          }
        }
      ]
    }
  }
  dependsOn: [
    blobs
  ]
}

output id string = account.id
output name string = account.name
