// Who read, wrote or deleted what, in the state and at the model. The app's own traffic is logged with everybody's, because
// the platform can't leave out an identity. Hence a workspace of its own: telemetry's daily cap would end both together.
param workspaceName string
param location string
param tags object
param retentionDays int
param storageName string

@description('Empty: no model was made here.')
param openAiName string

var storageCategories = [
  'StorageRead'
  'StorageWrite'
  'StorageDelete'
]

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionDays
    features: {
      disableLocalAuth: true
    }
  }
}

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: storageName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource openai 'Microsoft.CognitiveServices/accounts@2025-06-01' existing = if (!empty(openAiName)) {
  // Azure checks names before it looks at conditions, and an empty one is none.
  name: empty(openAiName) ? 'none' : openAiName
}

resource blobAudit 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: blobs
  properties: {
    workspaceId: workspace.id
    logs: [
      for category in storageCategories: {
        category: category
        enabled: true
      }
    ]
  }
}

resource tableAudit 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: tables
  properties: {
    workspaceId: workspace.id
    logs: [
      for category in storageCategories: {
        category: category
        enabled: true
      }
    ]
  }
}

resource openAiAudit 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (!empty(openAiName)) {
  name: 'audit'
  scope: openai
  properties: {
    workspaceId: workspace.id
    logs: [
      {
        category: 'Audit'
        enabled: true
      }
    ]
  }
}
