#!/bin/sh
# Azurite, the storage emulator, needs Node.js 20 or newer.
set -u
major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) || major=0
if [ "$major" -lt 20 ] || ! command -v npm >/dev/null 2>&1; then
  echo "Node.js 20 or newer with npm was not found (it runs Azurite, the storage emulator). Install it from https://nodejs.org/" >&2
  exit 1
fi
