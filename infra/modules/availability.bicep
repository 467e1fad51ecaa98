// Asks the app from five places whether it answers, and tells somebody when most of them get no answer. It shows that the app
// loads, and nothing of agent, model or storage: infra/smoke.sh does that.
param name string
param location string
param tags object
param insightsName string

@description('The address of the app.')
param appUri string

@description('The action group that is told. Empty: nobody is, results are in the portal only.')
param receiversId string

@description('Address or path of the page that says what to do.')
param runbooks string

// Azure's names of the places: East US, West Europe, North Europe, Southeast Asia, Australia East. With fewer than five,
// trouble of one of them looks like trouble of the app.
var places = [
  'us-va-ash-azr'
  'emea-nl-ams-azr'
  'emea-gb-db3-azr'
  'apac-sg-sin-azr'
  'emea-au-syd-edge'
]

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource test 'Microsoft.Insights/webtests@2022-06-15' = {
  name: name
  location: location
  // By this tag Application Insights knows that the test is its own.
  tags: union(tags, {
    'hidden-link:${insights.id}': 'Resource'
  })
  kind: 'standard'
  properties: {
    SyntheticMonitorId: name
    Name: name
    Kind: 'standard'
    Enabled: true
    // Seconds between two calls from one place. Fewer than the alert's window, so that each place has a result in it.
    Frequency: 600
    // Long enough for a cold start.
    Timeout: 120
    RetryEnabled: true
    Locations: [
      for place in places: {
        Id: place
      }
    ]
    Request: {
      RequestUrl: '${appUri}/readiness'
      HttpVerb: 'GET'
      ParseDependentRequests: false
    }
    ValidationRules: {
      ExpectedHttpStatusCode: 200
      SSLCheck: true
    }
  }
}

resource alert 'Microsoft.Insights/metricAlerts@2018-03-01' = if (!empty(receiversId)) {
  name: '${name}-alert'
  location: 'global'
  tags: union(tags, {
    'hidden-link:${insights.id}': 'Resource'
    'hidden-link:${test.id}': 'Resource'
  })
  properties: {
    description: 'Most places that ask the app whether it answers get no answer. What to do: ${runbooks}#availability'
    severity: 1
    enabled: true
    scopes: [
      test.id
      insights.id
    ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.WebtestLocationAvailabilityCriteria'
      webTestId: test.id
      componentId: insights.id
      failedLocationCount: 3
    }
    autoMitigate: true
    actions: [
      {
        actionGroupId: receiversId
      }
    ]
  }
}
