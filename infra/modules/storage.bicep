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

@minValue(0)
@description('0: no rule for stream segments.')
param streamDays int

@minValue(0)
@description('0: no rule for spilled values.')
param payloadIdleDays int

param softDeleteDays int
param publicAccess bool

// A lifecycle rule without a prefix is a rule for every blob of the account, the host's leases and the deployment
// package among them. So the prefixes are written once, here, always end in a slash, and the container has a name.
var streamPrefix = '${container}/streams/'
var valuePrefix = '${container}/values/'

// Both are nets under the app's own retention timer. Days are the finest grain there is, and the platform runs the rules
// about once a day.
var streamRules = [
  {
    name: 'streams'
    type: 'Lifecycle'
    definition: {
      filters: {
        blobTypes: [
          'appendBlob'
        ]
        prefixMatch: [
          streamPrefix
        ]
      }
      actions: {
        baseBlob: {
          delete: {
            // Of each segment by itself: a stream that has been written for long loses its beginning first.
            daysAfterModificationGreaterThan: streamDays
          }
        }
      }
    }
  }
]
var valueRules = [
  {
    name: 'payloads'
    type: 'Lifecycle'
    definition: {
      filters: {
        blobTypes: [
          'blockBlob'
        ]
        prefixMatch: [
          valuePrefix
        ]
      }
      actions: {
        baseBlob: {
          delete: {
            // The platform does not know which rows refer to a value. Not by age, since a value is written once and read
            // for as long as its conversation goes on; but one that nobody reads goes too, while its conversation lives.
            daysAfterLastAccessTimeGreaterThan: payloadIdleDays
          }
        }
      }
    }
  }
]
var rules = concat(streamDays > 0 ? streamRules : [], payloadIdleDays > 0 ? valueRules : [])

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
    // What the rule for spilled values looks at; the first access to a blob in a day is billed for it.
    lastAccessTimeTrackingPolicy: {
      enable: payloadIdleDays > 0
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

// Without any rule the resource is not made, which leaves one from before as it is (docs/deploy.md, "Retention").
resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = if (!empty(rules)) {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: rules
    }
  }
  dependsOn: [
    blobs
  ]
}

output id string = account.id
output name string = account.name
