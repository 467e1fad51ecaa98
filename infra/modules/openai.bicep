// An Azure OpenAI account with one deployment, named as its model. It has no keys: the app signs in as itself.
param name string
param location string
param tags object
param model string
param modelVersion string
param sku string
param capacity int
param publicAccess bool

var anyVersion = {
  format: 'OpenAI'
  name: model
}

resource account 'Microsoft.CognitiveServices/accounts@2025-06-01' = {
  name: name
  location: location
  tags: tags
  kind: 'OpenAI'
  sku: {
    name: 'S0'
  }
  properties: {
    // Entra tokens work on a named endpoint only, not on the region's shared one.
    customSubDomainName: name
    disableLocalAuth: true
    publicNetworkAccess: publicAccess ? 'Enabled' : 'Disabled'
    networkAcls: {
      defaultAction: publicAccess ? 'Allow' : 'Deny'
    }
  }
}

resource deployment 'Microsoft.CognitiveServices/accounts/deployments@2025-06-01' = {
  parent: account
  name: model
  sku: {
    name: sku
    capacity: capacity
  }
  properties: {
    model: empty(modelVersion) ? anyVersion : union(anyVersion, { version: modelVersion })
    versionUpgradeOption: 'OnceCurrentVersionExpired'
  }
}

output id string = account.id
output name string = account.name
output endpoint string = account.properties.endpoint
