// Application Insights over a Log Analytics workspace. Neither takes anything that is not signed in with Entra.
param workspaceName string
param insightsName string
param location string
param tags object
param dailyQuotaGb int
param retentionDays int

// Tables of Application Insights keep 90 days whatever the workspace says, until each is told. Those of telemetry from
// browsers are left out: nothing writes them.
var tables = [
  'AppAvailabilityResults'
  'AppDependencies'
  'AppEvents'
  'AppExceptions'
  'AppMetrics'
  'AppPerformanceCounters'
  'AppRequests'
  'AppSystemEvents'
  'AppTraces'
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
    workspaceCapping: {
      dailyQuotaGb: dailyQuotaGb
    }
    features: {
      disableLocalAuth: true
      // A workspace of 30 days may keep 31 otherwise.
      immediatePurgeDataOn30Days: retentionDays == 30
    }
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: insightsName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    DisableLocalAuth: true
  }
}

// One after the other: changes of several tables of a workspace at a time may be refused as a conflict.
@batchSize(1)
resource retention 'Microsoft.OperationalInsights/workspaces/tables@2025-02-01' = [
  for table in tables: {
    parent: workspace
    name: table
    properties: {
      retentionInDays: retentionDays
      totalRetentionInDays: retentionDays
    }
    // The tables are the component's.
    dependsOn: [
      insights
    ]
  }
]

// Its connection string holds an instrumentation key, so it is no output: app.bicep reads it from the component.
output insightsName string = insights.name
