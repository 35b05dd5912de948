#!/usr/bin/env bash
# Provide the base images of the Compose lab: pull them, or else build substitutes under the same tags.
# Existing images are kept.   images.sh python | images.sh databases | images.sh toxiproxy SERVER
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/wirefault-ci
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt
wanted=${1:?usage: images.sh python | images.sh databases | images.sh toxiproxy SERVER} server=${2:-}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# the tags are in the files that use them
PYTHON=$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "$here/../Dockerfile" | sed -n 1p)
TOXIPROXY=$(sed -n 's/^ *image: *\([^ ]*toxiproxy:[^ ]*\).*/\1/p' "$here/../docker-compose.yaml")
POSTGRES=$(sed -n 's/^ *image: *\(postgres:[^ ]*\).*/\1/p' "$here/../docker-compose.yaml")
REDIS=$(sed -n 's/^ *image: *\(redis:[^ ]*\).*/\1/p' "$here/../docker-compose.yaml")

fail() { echo "images.sh: $*" >&2; exit 1; }

[[ -n $PYTHON && -n $TOXIPROXY && -n $POSTGRES && -n $REDIS ]] || fail "the Dockerfile or docker-compose.yaml names no base image"

have() { docker image inspect "$1" >/dev/null 2>&1 || timeout 120 docker pull --quiet "$1" >/dev/null 2>&1; }

# Debian's own Python laid out as in the official image: `python` and `pip` in /usr/local/bin, and pip may install
bootstrap() {
    local root=$work/root url
    command -v debootstrap >/dev/null || fail "$PYTHON cannot be pulled, and there is no debootstrap to make a stand-in"
    url=$("$here/mirror.sh") || fail "$PYTHON cannot be pulled, and apt knows no Debian mirror to make a stand-in from"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
        bookworm "$root" "$url" >"$work/log" 2>&1 || fail "debootstrap: $(tail -n 1 "$work/log")"
    rm -rf "$root$CERTIFICATES" "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED \
        "$root"/var/{cache/apt,lib/apt/lists}/* "$root"/usr/share/{doc,locale,man}/*
    ln -s ../../bin/python3 "$root/usr/local/bin/python"
    ln -s ../../bin/pip3 "$root/usr/local/bin/pip"
    mkdir -p "$CACHE"
    tar -C "$root" -cf "$CACHE/$$.part" .
    mv "$CACHE/$$.part" "$1"
}

# A build in the image needs this machine's configuration to reach the package index.
pip_conf() {
    local name proxy=${HTTPS_PROXY:-${https_proxy:-}}
    echo "[global]"
    echo "cert = $CERTIFICATES"
    if [[ -n $proxy ]]; then echo "proxy = $proxy"; fi
    for name in index-url extra-index-url trusted-host; do
        python3 -m pip config list 2>/dev/null | sed -n "s/^[^.]*\(:env:\)\?\.$name='\(.*\)'$/$name = \2/p" | tail -n 1
    done
}

python_image() {
    local base=$CACHE/bookworm-python.tar overlay=$work/overlay
    [[ -f $base ]] || bootstrap "$base"
    mkdir -p "$overlay$(dirname "$CERTIFICATES")"
    cat "${SSL_CERT_FILE:-$CERTIFICATES}" >"$overlay$CERTIFICATES"
    pip_conf >"$overlay/etc/pip.conf"
    cp "$base" "$work/image.tar"
    tar -C "$overlay" --owner=0 --group=0 -rf "$work/image.tar" "${CERTIFICATES#/}" etc/pip.conf
    docker import --change 'ENV LANG=C.UTF-8' --change 'CMD ["python"]' \
        --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
        --message "stand-in for $PYTHON" "$work/image.tar" "$PYTHON" >/dev/null
    docker run --rm "$PYTHON" python -m pip --version >/dev/null || fail "the stand-in for $PYTHON does not run"
}

toxiproxy_image() {
    mkdir -p "$work/toxiproxy"
    cp "$server" "$work/toxiproxy/toxiproxy"
    tar -C "$work/toxiproxy" --owner=0 --group=0 -c toxiproxy |
        docker import --change 'ENTRYPOINT ["/toxiproxy"]' --change 'CMD ["-host=0.0.0.0"]' --change 'EXPOSE 8474' \
            --message "stand-in for $TOXIPROXY" - "$TOXIPROXY" >/dev/null
    docker run --rm "$TOXIPROXY" --version >/dev/null || fail "$server does not run as $TOXIPROXY: is it static?"
}

# Debian's PostgreSQL and Redis in one file system, with what the lab uses of the official images' interface
bootstrap_databases() {
    local root=$work/databases url
    command -v debootstrap >/dev/null || fail "$POSTGRES cannot be pulled, and there is no debootstrap"
    url=$("$here/mirror.sh") || fail "$POSTGRES cannot be pulled, and apt knows no Debian mirror"
    debootstrap --variant=minbase --include=postgresql,redis-server bookworm "$root" "$url" >"$work/databases.log" 2>&1 ||
        fail "debootstrap: $(tail -n 1 "$work/databases.log")"
    rm -rf "$root"/var/{cache/apt,lib/apt/lists,lib/postgresql}/* "$root"/usr/share/{doc,locale,man}/*
    mkdir -p "$root"/data "$root"/run/postgresql "$root"/var/lib/postgresql/data
    chroot "$root" chown postgres: /var/lib/postgresql/data
    chmod 3777 "$root"/run/postgresql
    cat >"$root/usr/local/bin/postgres-entrypoint" <<'END'
#!/bin/sh
set -e
[ -s "$PGDATA/PG_VERSION" ] || {
    initdb --username postgres --auth trust --encoding UTF8 --locale C >/dev/null
    echo "host all all all ${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
}
exec postgres -c listen_addresses='*'
END
    chmod 755 "$root/usr/local/bin/postgres-entrypoint"
    mkdir -p "$CACHE"
    tar -C "$root" -cf "$CACHE/$$.part" .
    mv "$CACHE/$$.part" "$1"
}

databases_images() {
    local base=$CACHE/bookworm-databases.tar
    [[ -f $base ]] || bootstrap_databases "$base"
    docker import --change 'ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin' \
        --change 'ENV PGDATA=/var/lib/postgresql/data' --change 'ENTRYPOINT ["postgres-entrypoint"]' \
        --message "stand-in for $POSTGRES" "$base" "$POSTGRES" >/dev/null
    docker import --change 'CMD ["redis-server"]' --message "stand-in for $REDIS" "$base" "$REDIS" >/dev/null
    docker run --rm "$REDIS" redis-server --version >/dev/null || fail "the stand-in for $REDIS does not run"
}

case $wanted in
    python) have "$PYTHON" || python_image ;;
    databases) have "$POSTGRES" && have "$REDIS" || databases_images ;;
    toxiproxy) have "$TOXIPROXY" || toxiproxy_image ;;
    *) fail "no such image: $wanted" ;;
esac
