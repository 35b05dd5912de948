#!/usr/bin/env bash
# Provide Prometheus for the test of the lab's metrics: the one on PATH, else Debian's.   prometheus.sh
set -euo pipefail

command -v prometheus >/dev/null && exit
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
{ apt-get update && apt-get install --yes --no-install-recommends prometheus; } </dev/null >"$log" 2>&1 ||
    { echo "prometheus.sh: apt-get: $(tail -n 1 "$log")" >&2; exit 1; }
