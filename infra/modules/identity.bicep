// The one identity of the app. User-assigned, so that its roles exist before the app does and outlive it.
param name string
param location string
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

output name string = identity.name
output principalId string = identity.properties.principalId
