#!/bin/sh
# Prints the path of a Python 3.13, or says how to get one. A name on PATH is not enough: pyenv's shims are there for
# versions that are not active, and fail when called.
set -u
works() { "$1" -c 'import sys; raise SystemExit(sys.version_info[:2] != (3, 13))' >/dev/null 2>&1; }
for candidate in "${PYTHON:-}" python3.13 python3 python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python3.13; do
  [ -n "$candidate" ] && works "$candidate" || continue
  command -v "$candidate"
  exit 0
done
echo "Python 3.13 was not found. Install it (https://www.python.org/downloads/, or: pyenv install 3.13), or set PYTHON=/path/to/python3.13" >&2
exit 1
