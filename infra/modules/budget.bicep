// A budget of the resource group: it tells by e-mail what is spent, it stops nothing.
param name string

@description('A month, in the currency of the subscription.')
param amount int

@description('First day of a month. Azure refuses to change it, so it is given and not computed from today.')
param startDate string
param email string

var receivers = [
  email
]

resource budget 'Microsoft.Consumption/budgets@2024-08-01' = {
  name: name
  properties: {
    category: 'Cost'
    amount: amount
    timeGrain: 'Monthly'
    timePeriod: {
      startDate: startDate
    }
    notifications: {
      mostIsSpent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 80
        thresholdType: 'Actual'
        contactEmails: receivers
      }
      allIsSpent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 100
        thresholdType: 'Actual'
        contactEmails: receivers
      }
      allWillBeSpent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 100
        thresholdType: 'Forecasted'
        contactEmails: receivers
      }
    }
  }
}
