// The network option: the app reaches storage, the scheduler and the model through private endpoints, and they have no
// public side any more. The API and the deployment endpoint stay public. Telemetry goes out over the public network.
param name string
param location string
param tags object

@description('At least a /23: a /24 is taken for the app, and one for the endpoints.')
param addressPrefix string
param storageId string

@description('Empty: the host uses the same account.')
param hostStorageId string

@description('Empty: Azure Storage is the durable backend.')
param schedulerId string

@description('Empty: no model was made here.')
param openAiId string

var blobZone = {
  group: 'blob'
  name: 'privatelink.blob.${environment().suffixes.storage}'
}
var queueZone = {
  group: 'queue'
  name: 'privatelink.queue.${environment().suffixes.storage}'
}
var tableZone = {
  group: 'table'
  name: 'privatelink.table.${environment().suffixes.storage}'
}
var schedulerZone = {
  group: 'scheduler'
  name: 'privatelink.durabletask.io'
}
var openAiZone = {
  group: 'account'
  name: 'privatelink.openai.azure.com'
}
var storageZones = [
  blobZone
  queueZone
  tableZone
]
var zones = concat(
  storageZones,
  empty(schedulerId) ? [] : [schedulerZone],
  empty(openAiId) ? [] : [openAiZone]
)

var storageTargets = [
  {
    name: 'blob'
    id: storageId
    zone: blobZone
  }
  {
    name: 'queue'
    id: storageId
    zone: queueZone
  }
  {
    name: 'table'
    id: storageId
    zone: tableZone
  }
]
var hostStorageTargets = [
  {
    name: 'host-blob'
    id: hostStorageId
    zone: blobZone
  }
  {
    name: 'host-queue'
    id: hostStorageId
    zone: queueZone
  }
  {
    name: 'host-table'
    id: hostStorageId
    zone: tableZone
  }
]
var schedulerTargets = [
  {
    name: 'scheduler'
    id: schedulerId
    zone: schedulerZone
  }
]
var openAiTargets = [
  {
    name: 'openai'
    id: openAiId
    zone: openAiZone
  }
]
var targets = concat(
  storageTargets,
  empty(hostStorageId) ? [] : hostStorageTargets,
  empty(schedulerId) ? [] : schedulerTargets,
  empty(openAiId) ? [] : openAiTargets
)

resource vnet 'Microsoft.Network/virtualNetworks@2024-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [
        addressPrefix
      ]
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 0)
          delegations: [
            {
              name: 'flex-consumption'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 1)
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }
}

module dns './private-zone.bicep' = [
  for zone in zones: {
    name: 'zone-${zone.group}'
    params: {
      name: zone.name
      group: zone.group
      tags: tags
      vnetId: vnet.id
    }
  }
]

// One after the other: several endpoints of one storage account at a time fail with StorageAccountOperationInProgress
// (Azure/bicep-registry-modules #962, #6001).
@batchSize(1)
module endpoints './private-endpoint.bicep' = [
  for target in targets: {
    name: 'endpoint-${target.name}'
    params: {
      name: 'pe-${target.name}-${name}'
      location: location
      tags: tags
      subnetId: '${vnet.id}/subnets/endpoints'
      targetId: target.id
      group: target.zone.group
      zoneName: target.zone.name
    }
    dependsOn: [
      dns
    ]
  }
]

output appSubnetId string = '${vnet.id}/subnets/app'
