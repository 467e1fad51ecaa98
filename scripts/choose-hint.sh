#!/bin/sh
# Prints which file tells how to call the app: with a key where keys are configured, in the environment or, under it, in
# local.settings.json. What it reads of the setting, it shows to nobody.
set -u
if [ -n "${HOSTING_API_KEYS+set}" ]; then
  keys=$HOSTING_API_KEYS
else
  keys=$(sed -n 's/.*"HOSTING_API_KEYS"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' local.settings.json 2>/dev/null)
fi
if [ -n "$keys" ]; then echo scripts/hint-with-key.txt; else echo scripts/hint.txt; fi
