// The Durable Task Scheduler, billed by the action: an idle app pays nothing.
param name string
param location string
param tags object
param taskHub string
param publicAccess bool

resource scheduler 'Microsoft.DurableTask/schedulers@2026-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'Consumption'
    }
    // An empty list would deny everybody. Who may really do something, Entra and rbac.bicep decide.
    ipAllowlist: [
      '0.0.0.0/0'
    ]
    publicNetworkAccess: publicAccess ? 'Enabled' : 'Disabled'
  }
}

resource hub 'Microsoft.DurableTask/schedulers/taskHubs@2026-02-01' = {
  parent: scheduler
  name: taskHub
}

// The truth about a task is its record in the table. An orchestration that ended is kept only for the dashboard.
resource retention 'Microsoft.DurableTask/schedulers/retentionPolicies@2026-02-01' = {
  parent: scheduler
  name: 'default'
  properties: {
    retentionPolicies: [
      {
        retentionPeriodInDays: 3
      }
      {
        orchestrationState: 'Failed'
        retentionPeriodInDays: 30
      }
    ]
  }
}

output id string = scheduler.id
output name string = scheduler.name
output endpoint string = scheduler.properties.endpoint
