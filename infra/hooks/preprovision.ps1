# Runs before `azd provision`. Changes nothing; stops when a value of the environment would keep the app from starting, or
# the deployment from ending, or take back from a deployed app what is hard to get again.
# It never prints a value of HOSTING_API_KEYS or ALERT_WEBHOOK.
$ErrorActionPreference = 'Stop'

function Fail([string] $message) {
    [Console]::Error.WriteLine("preprovision: $message")
    exit 1
}

function Warn([string] $message) {
    [Console]::Error.WriteLine("preprovision: $message")
}

# Values that a machine without production's environment would not have.
function UnlessMeant([string] $message) {
    if ($env:PROVISION_ANYWAY -cne 'true') {
        Fail "$message If that is meant, for this once: `$env:PROVISION_ANYWAY='true'. If not: docs/runbooks.md, 'On another machine'."
    }
}

# An entry is <tenant>:<key id>:<salt>:<hash>[:<user>], as hosting/keys.py reads it; commas or white space between them.
$name = '[A-Za-z0-9._@-]{1,64}'
$entry = "^${name}:[0-9a-f]{12}:[0-9a-f]{32}:[0-9a-f]{64}(:${name})?$"
$number = 0
$ids = @()
foreach ($one in ("$env:HOSTING_API_KEYS" -split '[,\s]+' | Where-Object { $_ })) {
    $number++
    if ($one -clike 'sk-*') {
        Fail "entry $number of HOSTING_API_KEYS is a key. Only its entry belongs there: mint a new key, this one is on disk now."
    }
    if ($one -cnotmatch $entry) {
        Fail "entry $number of HOSTING_API_KEYS is not <tenant>:<key id>:<salt>:<hash>[:<user>]. Copy what 'python -m hosting.keys new TENANT' prints."
    }
    $ids += $one.Split(':')[1]
}
if ($ids | Group-Object -CaseSensitive | Where-Object { $_.Count -gt 1 }) {
    Fail "HOSTING_API_KEYS has the same key id twice: the app would not load. Keep one entry of each key."
}

# Names that main.bicep sets, or a parameter: they would be ignored here, or break the app's way to its own storage.
$taken = '^(HOSTING_(API_KEYS|ISOLATION|TABLE|CONTAINER|RUNS_PER_MINUTE|RUNS_PER_MINUTE_SHARED|MAX_UNFINISHED_RUNS_PER_TENANT|RETENTION_DAYS|CONVERSATION_DAYS|STREAM_HOURS|STORAGE_CONNECTION)|(AzureWebJobsStorage|AzureFunctionsJobHost|StateStorage|APPLICATIONINSIGHTS_|AZURE_|DURABLE_TASK_|FUNCTIONS_|PYTHON_|WEBSITE_).*)$'
if ($env:EXTRA_SETTINGS) {
    foreach ($setting in ($env:EXTRA_SETTINGS -split ',')) {
        if ($setting -notmatch '^\s*[A-Za-z_][A-Za-z0-9_.]*\s*=') {
            Fail "EXTRA_SETTINGS takes NAME=value,NAME=value: no comma in a value, none at the end."
        }
        $name = $setting.Split('=')[0].Trim()
        if ($name -match $taken) {
            Fail "EXTRA_SETTINGS has $name, which the template sets itself. docs/deploy.md has the parameter for it, if there is one."
        }
    }
}

if ($env:ALERT_WEBHOOK -and $env:ALERT_WEBHOOK -cnotlike 'https://*') {
    Fail "ALERT_WEBHOOK takes an address that begins with https://."
}
if ($env:AVAILABILITY_TEST -ceq 'true' -and -not $env:ALERT_EMAIL -and -not $env:ALERT_WEBHOOK) {
    Warn "AVAILABILITY_TEST is true, and neither ALERT_EMAIL nor ALERT_WEBHOOK is set: each call is billed, and nobody is told."
}

if ($env:AZURE_OPENAI_EXISTING_ENDPOINT -and -not $env:AZURE_OPENAI_MODEL) {
    Fail 'AZURE_OPENAI_EXISTING_ENDPOINT is set but AZURE_OPENAI_MODEL, the name of its deployment, is not.'
}

$budget = if ($env:BUDGET_AMOUNT) { $env:BUDGET_AMOUNT } else { '0' }
if ($budget -notmatch '^[0-9]+$') {
    Fail "BUDGET_AMOUNT takes a whole number."
}
if ([int]$budget -gt 0) {
    if (-not $env:ALERT_EMAIL) {
        Fail "BUDGET_AMOUNT is set but ALERT_EMAIL, who is told, is not."
    }
    if ("$env:BUDGET_START_DATE" -notmatch '^[0-9]{4}-[0-9]{2}-01$') {
        Fail "BUDGET_AMOUNT is set, and BUDGET_START_DATE is not the first day of a month, as 2026-12-01. Set it once, to the month in which this environment is made: Azure refuses to change it."
    }
}

$client = '^\s*(agent-framework-openai|-r\s+requirements-model\.txt)'
if ($env:AZURE_OPENAI_MODEL -and -not (Select-String -Path 'requirements.txt' -Pattern $client -Quiet)) {
    Fail "AZURE_OPENAI_MODEL is set, but requirements.txt does not install the model's client. Add the line: -r requirements-model.txt"
}

# The host then leaves the logs of the app to the app itself, which needs the packages to export them.
$exporter = '^\s*(azure-monitor-opentelemetry-exporter|-r\s+requirements-telemetry\.txt)'
if ($env:OPEN_TELEMETRY -eq 'true' -and -not (Select-String -Path 'requirements.txt' -Pattern $exporter -Quiet)) {
    Fail "OPEN_TELEMETRY is true, but requirements.txt does not install what exports it. Add the line: -r requirements-telemetry.txt"
}

# Lifecycle rules delete without asking the app, so none may be quicker than the app itself.
$retention = if ($env:HOSTING_RETENTION_DAYS) { $env:HOSTING_RETENTION_DAYS } else { '30' }
$conversations = if ($env:HOSTING_CONVERSATION_DAYS) { $env:HOSTING_CONVERSATION_DAYS } else { '30' }
$hours = if ($env:HOSTING_STREAM_HOURS) { $env:HOSTING_STREAM_HOURS } else { '24' }
$streams = if ($env:STREAM_DAYS) { $env:STREAM_DAYS } else { '40' }
$idle = if ($env:PAYLOAD_IDLE_DAYS) { $env:PAYLOAD_IDLE_DAYS } else { '0' }
if ("$retention,$conversations,$hours,$streams,$idle" -notmatch '^[0-9,]+$') {
    Fail "HOSTING_RETENTION_DAYS, HOSTING_CONVERSATION_DAYS, HOSTING_STREAM_HOURS, STREAM_DAYS and PAYLOAD_IDLE_DAYS take whole numbers."
}
# A run takes seven days at most, and its events are kept some hours after its end. A day for rounding.
if ([int]$streams -gt 0 -and [int]$streams -lt [math]::Floor([int]$hours / 24) + 9) {
    Fail "STREAM_DAYS is too few: the rule would delete streams in use. Take 0 for no rule, or at least HOSTING_STREAM_HOURS / 24 + 9."
}
if ([int]$idle -gt 0 -and ([int]$idle -le [int]$retention -or [int]$idle -le [int]$conversations -or [int]$retention -eq 0 -or [int]$conversations -eq 0)) {
    Fail "PAYLOAD_IDLE_DAYS is too few: the rule would delete values of conversations that are kept. Take 0 for no rule, or more than HOSTING_RETENTION_DAYS and HOSTING_CONVERSATION_DAYS, neither of them 0."
}

# What is deployed. azd knows it of its own deployments, and after `azd env refresh`.
if ($env:DEPLOYED_HOSTING_API_KEYS -ceq 'true' -and -not $env:HOSTING_API_KEYS) {
    UnlessMeant "HOSTING_API_KEYS is empty here, and the deployed app has keys: nobody who has one could call it any more."
}
if ($env:DEPLOYED_EASY_AUTH_CLIENT_ID -ceq 'true' -and -not $env:EASY_AUTH_CLIENT_ID) {
    UnlessMeant "EASY_AUTH_CLIENT_ID is empty here, and Easy Auth is on in the deployed app: nobody with a token could call it any more."
}
if ($env:DEPLOYED_VNET_ENABLED -ceq 'true' -and $env:VNET_ENABLED -cne 'true') {
    UnlessMeant "VNET_ENABLED is true in the deployed app and not here: storage would be open to the internet."
}
if ($env:DEPLOYED_SEPARATE_HOST_ACCOUNT -ceq 'true' -and $env:SEPARATE_HOST_ACCOUNT -cne 'true') {
    UnlessMeant "SEPARATE_HOST_ACCOUNT is true in the deployed app and not here: the host would move to the account of the state, which has no package."
}
$sku = if ($env:STORAGE_SKU) { $env:STORAGE_SKU } else { 'Standard_LRS' }
if ($env:DEPLOYED_STORAGE_SKU -and $env:DEPLOYED_STORAGE_SKU -cne $sku) {
    UnlessMeant "STORAGE_SKU is another than in the deployed app: there would be fewer copies, or Azure refuses."
}
$isolation = if ($env:HOSTING_ISOLATION) { $env:HOSTING_ISOLATION } else { 'tenant' }
if ($env:DEPLOYED_HOSTING_ISOLATION -and $env:DEPLOYED_HOSTING_ISOLATION -cne $isolation) {
    UnlessMeant "HOSTING_ISOLATION is another than in the deployed app: what is stored would not be found."
}
# Both are days, and 0 is for ever.
function IsShorter([int] $deployed, [int] $now) {
    return $now -ne 0 -and ($deployed -eq 0 -or $now -lt $deployed)
}
if ($env:DEPLOYED_HOSTING_RETENTION_DAYS -and (IsShorter $env:DEPLOYED_HOSTING_RETENTION_DAYS $retention)) {
    UnlessMeant "HOSTING_RETENTION_DAYS is fewer than in the deployed app: what is older would be deleted."
}
if ($env:DEPLOYED_HOSTING_CONVERSATION_DAYS -and (IsShorter $env:DEPLOYED_HOSTING_CONVERSATION_DAYS $conversations)) {
    UnlessMeant "HOSTING_CONVERSATION_DAYS is fewer than in the deployed app: what is older would be deleted."
}

# An environment that was never deployed from here, and whose app is there all the same. A pipeline has no memory, and gets its
# values from elsewhere. A first `azd up` that failed behind the app leaves an app as well, and no deployment that succeeded.
if (-not $env:SERVICE_API_URI -and $env:AZURE_ENV_NAME -and -not $env:CI -and (Get-Command az -ErrorAction SilentlyContinue)) {
    $there = ''
    # Signed in to nothing, no such group: az fails, and there is nothing to say.
    $PSNativeCommandUseErrorActionPreference = $false
    try {
        $there = az functionapp list -g "rg-$env:AZURE_ENV_NAME" --subscription "$env:AZURE_SUBSCRIPTION_ID" --query "[].name" -o tsv 2> $null
        if ($LASTEXITCODE -ne 0) { $there = '' }
    } catch {
        $there = ''
    }
    if ($there) {
        $ends = @()
        try {
            # Sorted out here: a quotation mark in an argument may get lost on its way to az.cmd.
            $ends = @(az deployment sub list --subscription "$env:AZURE_SUBSCRIPTION_ID" -o json 2> $null | ConvertFrom-Json |
                Where-Object { $_.tags.'azd-env-name' -ceq $env:AZURE_ENV_NAME } |
                ForEach-Object { $_.properties.provisioningState })
        } catch {
            $ends = @()
        }
        if ($ends.Count -gt 0 -and $ends -notcontains 'Succeeded') { $there = '' }
    }
    if ($there) {
        UnlessMeant "SERVICE_API_URI is not known here, and rg-$env:AZURE_ENV_NAME has an app: this machine lacks the values that it was deployed with."
    }
}
# What az left behind is not the hook's result.
exit 0
