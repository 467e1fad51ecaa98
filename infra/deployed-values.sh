#!/bin/sh
# Which values was an environment deployed with? `infra/deployed-values.sh ENV` prints those that are no defaults, as lines for
# azd's environment, from Azure's record of its last deployment. Wants az, signed in to the subscription, and jq. Secure values
# are not in that record: docs/runbooks.md, "On another machine", says where they are.
set -eu

env="${1:?the name of the azd environment}"
here=$(dirname "$0")

deployment=$(az deployment sub list -o tsv --query \
  "sort_by([?tags.\"azd-env-name\"=='$env' && properties.provisioningState=='Succeeded'], &properties.timestamp)[-1].name")
if [ -z "$deployment" ]; then
  echo "deployed-values: no deployment of $env that succeeded: is it this subscription?" >&2
  exit 1
fi
echo "deployed-values: $deployment" >&2
# What azd sets itself is left out. Between single quotation marks (u0027) azd takes a value as it stands: else it would look for
# variables behind each $, and lose a quotation mark at the end.
az deployment sub show -n "$deployment" --query properties.parameters -o json |
  jq -r --slurpfile file "$here/main.parameters.json" '
    . as $deployed
    | $file[0].parameters | to_entries[]
    | (.value.value | capture("^\\$\\{(?<name>\\w+)(=(?<default>.*))?\\}$")) as $variable
    | select($variable.name | test("^AZURE_(ENV_NAME|LOCATION|PRINCIPAL_ID|PRINCIPAL_TYPE)$") | not)
    | $deployed[.key].value
    | select(. != null and tostring != $variable.default)
    | tostring
    | "\($variable.name)=" + if contains("\u0027") then @json | gsub("\\$"; "\\$") else "\u0027\(.)\u0027" end'
