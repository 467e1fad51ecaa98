#!/bin/sh
# Runs after `azd deploy`. Changes nothing; prints where the app is and what is left to do.
set -eu

echo
echo "The app:        ${SERVICE_API_URI:?run azd provision first}"
echo "OpenAI clients: base_url=${SERVICE_API_URI}/v1"
echo "Is it up:       curl -i ${SERVICE_API_URI}/readiness   (the first call starts an instance)"
if [ -n "${AZURE_WORKBOOK_URL:-}" ]; then
  echo "The workbook:   ${AZURE_WORKBOOK_URL}"
fi
# Not where only azd's environment has lost them: a new key would take the place of all that the app has.
if [ -z "${HOSTING_API_KEYS:-}" ] && [ -z "${EASY_AUTH_CLIENT_ID:-}" ] &&
  [ "${DEPLOYED_HOSTING_API_KEYS:-}" != true ] && [ "${DEPLOYED_EASY_AUTH_CLIENT_ID:-}" != true ]; then
  cat <<TEXT

Nobody may call it yet: no API key is configured, so every request gets 401. Make one:

  make setup
  .venv/bin/python -m hosting.keys new TENANT       prints the key, once, and its entry
  azd env set HOSTING_API_KEYS "ENTRY" -e ${AZURE_ENV_NAME:-ENV}       several entries: separated by commas
  azd provision -e ${AZURE_ENV_NAME:-ENV}
TEXT
fi
if [ -n "${ALERT_EMAIL:-}${ALERT_WEBHOOK:-}" ] && [ "${OPEN_TELEMETRY:-}" != true ]; then
  echo
  echo "ALERT_EMAIL or ALERT_WEBHOOK is set, OPEN_TELEMETRY is not: nobody is told of failed turns, waiting runs, recoveries and failing storage calls."
fi
