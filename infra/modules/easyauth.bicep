// Easy Auth: the platform checks Entra tokens before the app sees a request, and tells the app who is calling. No client
// secret: tokens are validated, nobody is signed in here. The app trusts the identity headers only when this is on.
param siteName string

@description('Empty: switched off. It is deployed all the same, because leaving it out would leave an older one on.')
param clientId string

@description('Client ids of the applications that may call. Empty: any that the directory issues a token for this app.')
param allowedApplications array

@description('API keys are configured as well: then the platform lets a request without a token pass, and the app answers 401.')
param keysToo bool

var on = !empty(clientId)
var passes = !on || keysToo

var onlyFrom = {
  defaultAuthorizationPolicy: {
    allowedApplications: allowedApplications
  }
}
var entra = {
  azureActiveDirectory: {
    enabled: true
    registration: {
      clientId: clientId
      openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
    }
    validation: union(
      {
        allowedAudiences: [
          clientId
          'api://${clientId}'
        ]
      },
      empty(allowedApplications) ? {} : onlyFrom
    )
  }
}

resource site 'Microsoft.Web/sites@2024-11-01' existing = {
  name: siteName
}

resource auth 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'authsettingsV2'
  properties: {
    platform: {
      enabled: on
      runtimeVersion: '~1'
    }
    globalValidation: {
      requireAuthentication: !passes
      unauthenticatedClientAction: passes ? 'AllowAnonymous' : 'Return401'
      excludedPaths: [
        '/readiness'
      ]
    }
    httpSettings: {
      requireHttps: true
    }
    identityProviders: on ? entra : {}
    login: {
      tokenStore: {
        enabled: false
      }
    }
  }
}
