// Application Insights over a Log Analytics workspace. Neither takes anything that is not signed in with Entra.
param workspaceName string
param insightsName string
param location string
param tags object
param dailyQuotaGb int
param retentionDays int

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

// Its connection string holds an instrumentation key, so it is no output: app.bicep reads it from the component.
output insightsName string = insights.name
