#!/usr/bin/env bash
# Provide PostgreSQL and Redis for the tests of the conversation lab: Debian's, unless installed.   databases.sh
set -euo pipefail

compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && command -v redis-server >/dev/null && exit
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
{ apt-get update && apt-get install --yes --no-install-recommends postgresql redis-server; } </dev/null >"$log" 2>&1 ||
    { echo "databases.sh: apt-get: $(tail -n 1 "$log")" >&2; exit 1; }
