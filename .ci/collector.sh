#!/usr/bin/env bash
# Put a real OpenTelemetry Collector into FOLDER: the one on PATH, else a new build.   collector.sh FOLDER
set -euo pipefail

folder=${1:?usage: collector.sh FOLDER}
fail() { echo "collector.sh: $*" >&2; exit 1; }

mkdir -p "$folder"
folder=$(realpath "$folder")
if found=$(command -v otelcol); then
    ln -sf "$(readlink -f "$found")" "$folder/otelcol"
    exit
fi
command -v go >/dev/null || fail "no otelcol on PATH, and no Go to build it"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd "$(dirname "$0")/collector" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$folder/otelcol" .) \
    >"$log" 2>&1 || fail "go cannot build it: $(tail -n 1 "$log")"
