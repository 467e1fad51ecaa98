# Runs after `azd deploy`. Changes nothing; prints where the app is and what is left to do.
$ErrorActionPreference = 'Stop'

if (-not $env:SERVICE_API_URI) {
    [Console]::Error.WriteLine('postdeploy: SERVICE_API_URI is not set: run azd provision first')
    exit 1
}
Write-Output ''
Write-Output "The app:        $env:SERVICE_API_URI"
Write-Output "OpenAI clients: base_url=$env:SERVICE_API_URI/v1"
Write-Output "Is it up:       curl -i $env:SERVICE_API_URI/readiness   (the first call starts an instance)"
if ($env:AZURE_WORKBOOK_URL) {
    Write-Output "The workbook:   $env:AZURE_WORKBOOK_URL"
}
# Not where only azd's environment has lost them: a new key would take the place of all that the app has.
if (-not $env:HOSTING_API_KEYS -and -not $env:EASY_AUTH_CLIENT_ID -and
    $env:DEPLOYED_HOSTING_API_KEYS -cne 'true' -and $env:DEPLOYED_EASY_AUTH_CLIENT_ID -cne 'true') {
    $name = if ($env:AZURE_ENV_NAME) { $env:AZURE_ENV_NAME } else { 'ENV' }
    Write-Output @"

Nobody may call it yet: no API key is configured, so every request gets 401. Make one:

  py -3.13 -m venv .venv
  .venv\Scripts\pip install -r requirements.txt
  .venv\Scripts\python -m hosting.keys new TENANT   prints the key, once, and its entry
  azd env set HOSTING_API_KEYS "ENTRY" -e $name       several entries: separated by commas
  azd provision -e $name
"@
}
if (($env:ALERT_EMAIL -or $env:ALERT_WEBHOOK) -and $env:OPEN_TELEMETRY -ne 'true') {
    Write-Output ''
    Write-Output "ALERT_EMAIL or ALERT_WEBHOOK is set, OPEN_TELEMETRY is not: nobody is told of failed turns, waiting runs, recoveries and failing storage calls."
}
