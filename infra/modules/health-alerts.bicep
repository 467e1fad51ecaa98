// What Azure itself says of its services (the whole subscription) and of what lies in this resource group. Both come from the
// activity log: they need no telemetry, cost nothing, and have neither a threshold nor an end.
// docs/runbooks.md says what to do about each, under a heading of its name; tests/infra compares the two.
param name string
param tags object

@description('The action group that is told.')
param receiversId string

@description('Address or path of the page that says what to do.')
param runbooks string

// Informational is left out: news.
var serviceEvents = [
  'Incident'
  'Maintenance'
  'ActionRequired'
  'Security'
]
// Not Unknown: the prober is away, not the resource.
var states = [
  'Unavailable'
  'Degraded'
]
var anyServiceEvent = [
  for event in serviceEvents: {
    field: 'properties.incidentType'
    equals: event
  }
]
var anyState = [
  for state in states: {
    field: 'properties.currentHealthStatus'
    equals: state
  }
]

var rules = [
  {
    name: 'service-health'
    says: 'Azure announces an incident, maintenance, a change that you must act on or a security advisory for this subscription.'
    scope: subscription().id
    // All services and regions. A filter takes the names that are displayed, and one that is not exactly Azure's lets nothing
    // through.
    condition: [
      {
        field: 'category'
        equals: 'ServiceHealth'
      }
      {
        anyOf: anyServiceEvent
      }
    ]
  }
  {
    name: 'resource-health'
    says: 'Azure finds a resource of this group unavailable or degraded.'
    scope: resourceGroup().id
    // Whoever caused it: an event that is sent at once does not say so yet.
    condition: [
      {
        field: 'category'
        equals: 'ResourceHealth'
      }
      {
        field: 'status'
        equals: 'Active'
      }
      {
        anyOf: anyState
      }
    ]
  }
]

resource alerts 'Microsoft.Insights/activityLogAlerts@2020-10-01' = [
  for rule in rules: {
    name: '${name}-${rule.name}'
    location: 'global'
    tags: tags
    properties: {
      description: '${rule.says} What to do: ${runbooks}#${rule.name}'
      enabled: true
      // Azure takes one scope a rule.
      scopes: [
        rule.scope
      ]
      condition: {
        allOf: rule.condition
      }
      actions: {
        actionGroups: [
          {
            actionGroupId: receiversId
          }
        ]
      }
    }
  }
]
