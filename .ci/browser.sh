#!/usr/bin/env bash
# Provide Chromium for the tests of the page: the one on PATH, else Debian's.   browser.sh
set -euo pipefail

command -v chromium >/dev/null && exit
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
{ apt-get update && apt-get install --yes --no-install-recommends chromium; } </dev/null >"$log" 2>&1 ||
    { echo "browser.sh: apt-get: $(tail -n 1 "$log")" >&2; exit 1; }
