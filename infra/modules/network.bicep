// The network option: the app reaches storage, the scheduler and the model through private endpoints, and they have no
// public side any more. The API and the deployment endpoint stay public. Telemetry goes out over the public network.
param name string
param location string
param tags object
param storageId string

@description('Empty: Azure Storage is the durable backend.')
param schedulerId string

@description('Empty: no model was made here.')
param openAiId string

var storageTargets = [
  {
    name: 'blob'
    id: storageId
    group: 'blob'
    zone: 'privatelink.blob.${environment().suffixes.storage}'
  }
  {
    name: 'queue'
    id: storageId
    group: 'queue'
    zone: 'privatelink.queue.${environment().suffixes.storage}'
  }
  {
    name: 'table'
    id: storageId
    group: 'table'
    zone: 'privatelink.table.${environment().suffixes.storage}'
  }
]
var schedulerTargets = [
  {
    name: 'scheduler'
    id: schedulerId
    group: 'scheduler'
    zone: 'privatelink.durabletask.io'
  }
]
var openAiTargets = [
  {
    name: 'openai'
    id: openAiId
    group: 'account'
    zone: 'privatelink.openai.azure.com'
  }
]
var targets = concat(
  storageTargets,
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
        '10.0.0.0/16'
      ]
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: '10.0.0.0/24'
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
          addressPrefix: '10.0.1.0/24'
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }
}

module endpoints './private-endpoint.bicep' = [
  for target in targets: {
    name: 'endpoint-${target.name}'
    params: {
      name: 'pe-${target.name}-${name}'
      location: location
      tags: tags
      vnetId: vnet.id
      subnetId: '${vnet.id}/subnets/endpoints'
      targetId: target.id
      group: target.group
      zoneName: target.zone
    }
  }
]

output appSubnetId string = '${vnet.id}/subnets/app'
