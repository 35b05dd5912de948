#!/usr/bin/env bash
# Put the real Toxiproxy's server and client into FOLDER: those on PATH, else new builds.   toxiproxy.sh FOLDER
set -euo pipefail

VERSION=2.12.0
PACKAGE=github.com/Shopify/toxiproxy/v2
folder=${1:?usage: toxiproxy.sh FOLDER}

fail() { echo "toxiproxy.sh: $*" >&2; exit 1; }

# static, since the server's image contains nothing else
build() {
    command -v go >/dev/null || fail "no toxiproxy-$1 on PATH, and no Go to build it"
    CGO_ENABLED=0 GOBIN=$folder go install -ldflags "-X $PACKAGE.Version=$VERSION" "$PACKAGE/cmd/$1@v$VERSION" \
        2>"$folder/log" || fail "go cannot build $PACKAGE/cmd/$1 $VERSION: $(tail -n 1 "$folder/log")"
    mv "$folder/$1" "$folder/toxiproxy-$1"
}

mkdir -p "$folder"
for part in server cli; do
    if found=$(command -v "toxiproxy-$part"); then
        ln -sf "$(readlink -f "$found")" "$folder/toxiproxy-$part"
    else
        build "$part"
    fi
done
