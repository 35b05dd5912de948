#!/usr/bin/env bash
# Install Compose v2 as a plugin of the Docker command; FOLDER becomes its DOCKER_CONFIG. If `docker compose`
# exists, only copy its configuration. The package is from Debian's next release, by this machine's mirror.
#   compose.sh FOLDER
set -euo pipefail

SUITE=trixie
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/wirefault-ci
folder=${1:?usage: compose.sh FOLDER}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "compose.sh: $*" >&2; exit 1; }

fetch() {
    local mirror
    mirror=$("$here/mirror.sh") || fail "no Compose v2: apt knows no Debian mirror"
    mkdir -p "$work"/{lists,archives}/partial
    echo "deb [signed-by=$KEYS] $mirror $SUITE main" >"$work/sources.list"
    local options=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/archives" -o APT::Sandbox::User=root)
    (cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" download docker-compose) \
        >"$work/log" 2>&1 || fail "no Compose v2: apt-get: $(tail -n 1 "$work/log")"
    dpkg-deb -x "$work"/docker-compose_*.deb "$work/package"
    mkdir -p "$CACHE"
    mv "$work/package/usr/libexec/docker/cli-plugins/docker-compose" "$CACHE/$$.part"
    mv "$CACHE/$$.part" "$1"
}

plugin=$CACHE/docker-compose-$SUITE
mkdir -p "$folder/cli-plugins"
if [[ -d ${DOCKER_CONFIG:-$HOME/.docker} ]]; then cp -R "${DOCKER_CONFIG:-$HOME/.docker}/." "$folder/"; fi
if docker compose version >/dev/null 2>&1; then exit; fi
[[ -x $plugin ]] || fetch "$plugin"
ln -sf "$plugin" "$folder/cli-plugins/docker-compose"
DOCKER_CONFIG=$folder docker compose version >/dev/null 2>&1 || fail "no Compose v2: $plugin does not run here"
