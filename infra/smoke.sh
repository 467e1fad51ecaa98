#!/bin/sh
# Is the app at this address fit for users? `infra/smoke.sh https://func-<...>.azurewebsites.net`, with a key of the app in
# SMOKE_API_KEY: best of a tenant that does nothing else. A pipeline runs it after each deployment, and you can. With
# SMOKE_REVISION, what revision.txt said at the deployment, it asks for that version first, 120 times, five seconds apart.
set -eu

base="${1:?the address of the app}"
: "${SMOKE_API_KEY:?a key of the app}"

fail() {
  echo "smoke: $1" >&2
  exit 1
}

# Streams a turn and looks for its good end. The key is in the header that Easy Auth leaves alone, and not in the arguments,
# which other processes can see.
turn() {
  printf 'header = "api-key: %s"\n' "$SMOKE_API_KEY" |
    curl --config - -fsSN --max-time 300 -H 'content-type: application/json' -d "$1" "$base/v1/responses" |
    grep '^event: response.completed' > /dev/null
}

curl -fsS -o /dev/null --retry 30 --retry-delay 5 --retry-all-errors --max-time 60 "$base/readiness" ||
  fail "$base/readiness does not answer: the app has not loaded"
if [ -n "${SMOKE_REVISION:-}" ]; then
  tries=0
  until curl -sS --max-time 60 "$base/readiness" | grep -F "\"revision\":\"$SMOKE_REVISION\"" > /dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt "${SMOKE_TRIES:-120}" ] || fail "$base does not run version $SMOKE_REVISION: the old code still answers"
    sleep 5
  done
fi
code=$(curl -sS -o /dev/null -w '%{http_code}' --max-time 60 "$base/v1/models")
[ "$code" = 401 ] || fail "a request without a key is answered with $code and not with 401"
turn '{"input": "hello", "stream": true}' || fail "a turn does not end well: the agent, its model, or storage"
turn '{"input": "hello", "background": true, "stream": true}' ||
  fail "a background turn does not end well: the scheduler, its role, or streams"
echo "smoke: $base is well"
