// Lifecycle rules of the account that holds the state: nets under the app's own retention timer. Days are the finest grain
// there is, and the platform runs the rules about once a day.
param accountName string

@minLength(3)
@description('Container with spilled values and stream segments (HOSTING_CONTAINER). The rules are about this one alone.')
param container string

@minValue(0)
@description('0: no rule for stream segments.')
param streamDays int

@minValue(0)
@description('0: no rule for spilled values.')
param payloadIdleDays int

// A lifecycle rule without a prefix is a rule for every blob of the account, the host's leases and the deployment
// package among them. So the prefixes are written once, here, always end in a slash, and the container has a name.
var streamPrefix = '${container}/streams/'
var valuePrefix = '${container}/values/'

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

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: accountName
}

// Without any rule the resource is not made, which leaves one from before as it is (docs/deploy.md, "Switching off").
resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-01-01' = if (!empty(rules)) {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: rules
    }
  }
}
