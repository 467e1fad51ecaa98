// One private endpoint, registered in the DNS zone of its service (private-zone.bicep).
param name string
param location string
param tags object
param subnetId string
param targetId string
param group string
param zoneName string

resource zone 'Microsoft.Network/privateDnsZones@2024-06-01' existing = {
  name: zoneName
}

resource endpoint 'Microsoft.Network/privateEndpoints@2024-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    subnet: {
      id: subnetId
    }
    privateLinkServiceConnections: [
      {
        name: group
        properties: {
          privateLinkServiceId: targetId
          groupIds: [
            group
          ]
        }
      }
    ]
  }
}

resource zones 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-07-01' = {
  parent: endpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: group
        properties: {
          privateDnsZoneId: zone.id
        }
      }
    ]
  }
}
