#!/bin/sh
# Runs before `azd provision`. Changes nothing; stops when a value of the environment would keep the app from starting, or
# the deployment from ending.
# It never prints a value of HOSTING_API_KEYS.
set -euf

fail() {
  echo "preprovision: $1" >&2
  exit 1
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
