#!/bin/sh
# Runs before `azd provision`. Changes nothing; stops when a value of the environment would keep the app from starting, or
# the deployment from ending, or take back from a deployed app what is hard to get again.
# It never prints a value of HOSTING_API_KEYS or ALERT_WEBHOOK.
set -euf

fail() {
  echo "preprovision: $1" >&2
  exit 1
}

warn() {
  echo "preprovision: $1" >&2
}

# Values that a machine without production's environment would not have.
unless_meant() {
  [ "${PROVISION_ANYWAY:-}" = true ] ||
    fail "$1 If that is meant: PROVISION_ANYWAY=true azd provision -e ${AZURE_ENV_NAME:-ENV}. If not: docs/runbooks.md, 'On another machine'."
}

# An entry is <tenant>:<key id>:<salt>:<hash>[:<user>], as hosting/keys.py reads it; commas or white space between them.
name='[A-Za-z0-9._@-]{1,64}'
entry="^$name:[0-9a-f]{12}:[0-9a-f]{32}:[0-9a-f]{64}(:$name)?\$"
number=0
for one in $(printf '%s' "${HOSTING_API_KEYS:-}" | tr ',' ' '); do
  number=$((number + 1))
  case "$one" in
    sk-*) fail "entry $number of HOSTING_API_KEYS is a key. Only its entry belongs there: mint a new key, this one is on disk now." ;;
  esac
  printf '%s\n' "$one" | grep -Eq "$entry" ||
    fail "entry $number of HOSTING_API_KEYS is not <tenant>:<key id>:<salt>:<hash>[:<user>]. Copy what 'python -m hosting.keys new TENANT' prints."
done
repeated=$(printf '%s' "${HOSTING_API_KEYS:-}" | tr -s ', \t\r\n' '\n' | cut -d: -f2 | sort | uniq -d)
[ -z "$repeated" ] || fail "HOSTING_API_KEYS has the same key id twice: the app would not load. Keep one entry of each key."

# Names that main.bicep sets, or a parameter: they would be ignored here, or break the app's way to its own storage.
taken='^(HOSTING_(API_KEYS|ISOLATION|TABLE|CONTAINER|RUNS_PER_MINUTE|RUNS_PER_MINUTE_SHARED|MAX_UNFINISHED_RUNS_PER_TENANT|RETENTION_DAYS|CONVERSATION_DAYS|STREAM_HOURS|STORAGE_CONNECTION)|(AzureWebJobsStorage|AzureFunctionsJobHost|StateStorage|APPLICATIONINSIGHTS_|AZURE_|DURABLE_TASK_|FUNCTIONS_|PYTHON_|WEBSITE_).*)$'
if [ -n "${EXTRA_SETTINGS:-}" ]; then
  printf '%s\n' "$EXTRA_SETTINGS" | tr ',' '\n' | sed 's/^[[:space:]]*//' | while IFS= read -r setting; do
    printf '%s\n' "$setting" | grep -Eq '^[A-Za-z_][A-Za-z0-9_.]*[[:space:]]*=' ||
      fail "EXTRA_SETTINGS takes NAME=value,NAME=value: no comma in a value, none at the end."
    name=$(printf '%s' "${setting%%=*}" | tr -d '[:space:]')
    if printf '%s\n' "$name" | grep -Eiq "$taken"; then
      fail "EXTRA_SETTINGS has $name, which the template sets itself. docs/deploy.md has the parameter for it, if there is one."
    fi
  done || exit 1
fi

case "${ALERT_WEBHOOK:-}" in
  "" | https://*) ;;
  *) fail "ALERT_WEBHOOK takes an address that begins with https://." ;;
esac
if [ "${AVAILABILITY_TEST:-}" = true ] && [ -z "${ALERT_EMAIL:-}" ] && [ -z "${ALERT_WEBHOOK:-}" ]; then
  warn "AVAILABILITY_TEST is true, and neither ALERT_EMAIL nor ALERT_WEBHOOK is set: each call is billed, and nobody is told."
fi

if [ -n "${AZURE_OPENAI_EXISTING_ENDPOINT:-}" ] && [ -z "${AZURE_OPENAI_MODEL:-}" ]; then
  fail "AZURE_OPENAI_EXISTING_ENDPOINT is set but AZURE_OPENAI_MODEL, the name of its deployment, is not."
fi

budget="${BUDGET_AMOUNT:-0}"
case "$budget" in
  *[!0-9]*) fail "BUDGET_AMOUNT takes a whole number." ;;
esac
if [ "$budget" -gt 0 ]; then
  [ -n "${ALERT_EMAIL:-}" ] || fail "BUDGET_AMOUNT is set but ALERT_EMAIL, who is told, is not."
  printf '%s\n' "${BUDGET_START_DATE:-}" | grep -Eq '^[0-9]{4}-[0-9]{2}-01$' ||
    fail "BUDGET_AMOUNT is set, and BUDGET_START_DATE is not the first day of a month, as 2026-12-01. Set it once, to the month in which this environment is made: Azure refuses to change it."
fi

if [ -n "${AZURE_OPENAI_MODEL:-}" ] &&
  ! grep -Eq '^[[:space:]]*(agent-framework-openai|-r[[:space:]]+requirements-model\.txt)' requirements.txt; then
  fail "AZURE_OPENAI_MODEL is set, but requirements.txt does not install the model's client. Add the line: -r requirements-model.txt"
fi

# The host then leaves the logs of the app to the app itself, which needs the packages to export them.
if [ "${OPEN_TELEMETRY:-}" = true ] &&
  ! grep -Eq '^[[:space:]]*(azure-monitor-opentelemetry-exporter|-r[[:space:]]+requirements-telemetry\.txt)' requirements.txt; then
  fail "OPEN_TELEMETRY is true, but requirements.txt does not install what exports it. Add the line: -r requirements-telemetry.txt"
fi

# Lifecycle rules delete without asking the app, so none may be quicker than the app itself.
retention="${HOSTING_RETENTION_DAYS:-30}"
conversations="${HOSTING_CONVERSATION_DAYS:-30}"
hours="${HOSTING_STREAM_HOURS:-24}"
streams="${STREAM_DAYS:-40}"
idle="${PAYLOAD_IDLE_DAYS:-0}"
case "$retention,$conversations,$hours,$streams,$idle" in
  *[!0-9,]*) fail "HOSTING_RETENTION_DAYS, HOSTING_CONVERSATION_DAYS, HOSTING_STREAM_HOURS, STREAM_DAYS and PAYLOAD_IDLE_DAYS take whole numbers." ;;
esac
# A run takes seven days at most, and its events are kept some hours after its end. A day for rounding.
if [ "$streams" -gt 0 ] && [ "$streams" -lt $((hours / 24 + 9)) ]; then
  fail "STREAM_DAYS is too few: the rule would delete streams in use. Take 0 for no rule, or at least HOSTING_STREAM_HOURS / 24 + 9."
fi
if [ "$idle" -gt 0 ] && { [ "$idle" -le "$retention" ] || [ "$idle" -le "$conversations" ] || [ "$retention" -eq 0 ] || [ "$conversations" -eq 0 ]; }; then
  fail "PAYLOAD_IDLE_DAYS is too few: the rule would delete values of conversations that are kept. Take 0 for no rule, or more than HOSTING_RETENTION_DAYS and HOSTING_CONVERSATION_DAYS, neither of them 0."
fi

# What is deployed. azd knows it of its own deployments, and after `azd env refresh`.
if [ "${DEPLOYED_HOSTING_API_KEYS:-}" = true ] && [ -z "${HOSTING_API_KEYS:-}" ]; then
  unless_meant "HOSTING_API_KEYS is empty here, and the deployed app has keys: nobody who has one could call it any more."
fi
if [ "${DEPLOYED_EASY_AUTH_CLIENT_ID:-}" = true ] && [ -z "${EASY_AUTH_CLIENT_ID:-}" ]; then
  unless_meant "EASY_AUTH_CLIENT_ID is empty here, and Easy Auth is on in the deployed app: nobody with a token could call it any more."
fi
if [ "${DEPLOYED_VNET_ENABLED:-}" = true ] && [ "${VNET_ENABLED:-}" != true ]; then
  unless_meant "VNET_ENABLED is true in the deployed app and not here: storage would be open to the internet."
fi
if [ "${DEPLOYED_SEPARATE_HOST_ACCOUNT:-}" = true ] && [ "${SEPARATE_HOST_ACCOUNT:-}" != true ]; then
  unless_meant "SEPARATE_HOST_ACCOUNT is true in the deployed app and not here: the host would move to the account of the state, which has no package."
fi
if [ "${DEPLOYED_STORAGE_SKU:-${STORAGE_SKU:-Standard_LRS}}" != "${STORAGE_SKU:-Standard_LRS}" ]; then
  unless_meant "STORAGE_SKU is another than in the deployed app: there would be fewer copies, or Azure refuses."
fi
if [ "${DEPLOYED_HOSTING_ISOLATION:-${HOSTING_ISOLATION:-tenant}}" != "${HOSTING_ISOLATION:-tenant}" ]; then
  unless_meant "HOSTING_ISOLATION is another than in the deployed app: what is stored would not be found."
fi
# Both are days, and 0 is for ever.
is_shorter() {
  [ "$2" -ne 0 ] && { [ "$1" -eq 0 ] || [ "$2" -lt "$1" ]; }
}
if is_shorter "${DEPLOYED_HOSTING_RETENTION_DAYS:-$retention}" "$retention"; then
  unless_meant "HOSTING_RETENTION_DAYS is fewer than in the deployed app: what is older would be deleted."
fi
if is_shorter "${DEPLOYED_HOSTING_CONVERSATION_DAYS:-$conversations}" "$conversations"; then
  unless_meant "HOSTING_CONVERSATION_DAYS is fewer than in the deployed app: what is older would be deleted."
fi

# An environment that was never deployed from here, and whose app is there all the same. A pipeline has no memory, and gets its
# values from elsewhere. A first `azd up` that failed behind the app leaves an app as well, and no deployment that succeeded.
if [ -z "${SERVICE_API_URI:-}" ] && [ -n "${AZURE_ENV_NAME:-}" ] && [ -z "${CI:-}" ] && command -v az > /dev/null; then
  there=$(az functionapp list -g "rg-$AZURE_ENV_NAME" --subscription "${AZURE_SUBSCRIPTION_ID:-}" --query "[].name" -o tsv 2> /dev/null) || there=""
  if [ -n "$there" ]; then
    ends=$(az deployment sub list --subscription "${AZURE_SUBSCRIPTION_ID:-}" -o tsv \
      --query "[?tags.\"azd-env-name\"=='$AZURE_ENV_NAME'].properties.provisioningState" 2> /dev/null) || ends=""
    case "$ends" in
      "" | *Succeeded*) ;;
      *) there="" ;;
    esac
  fi
  [ -z "$there" ] ||
    unless_meant "SERVICE_API_URI is not known here, and rg-$AZURE_ENV_NAME has an app: this machine lacks the values that it was deployed with."
fi
