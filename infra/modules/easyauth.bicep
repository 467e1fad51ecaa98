// Easy Auth: the platform checks Entra tokens before the app sees a request, and tells the app who is calling. No client
// secret: tokens are validated, nobody is signed in here. The app trusts the identity headers only when this is on.
param siteName string
param clientId string

@description('API keys are configured as well: then the platform lets a request without a token pass, and the app answers 401.')
param keysToo bool

resource site 'Microsoft.Web/sites@2024-11-01' existing = {
  name: siteName
}

resource auth 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'authsettingsV2'
  properties: {
    platform: {
      enabled: true
      runtimeVersion: '~1'
    }
    globalValidation: {
      requireAuthentication: !keysToo
      unauthenticatedClientAction: keysToo ? 'AllowAnonymous' : 'Return401'
      excludedPaths: [
        '/readiness'
      ]
    }
    httpSettings: {
      requireHttps: true
    }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: clientId
          openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
        }
        validation: {
          allowedAudiences: [
            clientId
            'api://${clientId}'
          ]
        }
      }
    }
    login: {
      tokenStore: {
        enabled: false
      }
    }
  }
}
