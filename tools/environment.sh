#!/usr/bin/env bash
# Install a lock into the virtual environment FOLDER: by a pinned uv, else by pip. `sync` also removes other packages.
#   environment.sh sync|install PYTHON FOLDER LOCK
set -euo pipefail

usage="usage: environment.sh sync|install PYTHON FOLDER LOCK"
how=${1:?$usage} python=${2:?$usage} folder=${3:?$usage} lock=${4:?$usage}
uv_lock=$(dirname "$0")/../requirements-uv.lock
tools=$folder/.uv
export UV_PYTHON_DOWNLOADS=never

# pip's own settings (a mirror, a proxy, a certificate) also apply to uv
adopt_pip_settings() {
    local settings names=(index-url UV_DEFAULT_INDEX find-links UV_FIND_LINKS cert SSL_CERT_FILE proxy HTTPS_PROXY)
    settings=$("$installer" -m pip config list 2>/dev/null) || return 0
    for ((at = 0; at < ${#names[@]}; at += 2)); do
        local name=${names[at]} variable=${names[at + 1]} value
        value=$(sed -n "s/^[^.]*\.$name='\(.*\)'\$/\1/p" <<<"$settings" | tail -n 1)
        if [[ -n $value && -z ${!variable:-} ]]; then export "$variable=$value"; fi
    done
}

install_uv() {
    cmp -s "$uv_lock" "$tools/lock" && return
    rm -rf "$tools"
    PIP_ROOT_USER_ACTION=ignore "$installer" -m pip install --disable-pip-version-check --no-deps --require-hashes \
        --target "$tools" -r "$uv_lock" && cp "$uv_lock" "$tools/lock"
}

# without a terminal, uv prints a line for each large download
with_uv() {
    local options=(--no-deps -r)
    if [[ $how == sync ]]; then options=(); fi
    install_uv || return
    adopt_pip_settings
    "$tools/bin/uv" venv --quiet --allow-existing --python "$("$python" -c 'import sys; print(sys.executable)')" \
        "$folder" || return
    "$tools/bin/uv" pip "$how" --python "$folder/bin/python" --require-hashes ${options[@]+"${options[@]}"} "$lock" 2>&1 |
        { grep --line-buffered -v '^ [+-] ' || true; }
}

# pip is silent while it installs what it downloaded
count_packages() {
    local wanted=$(grep -c '^[^ #].*==' "$lock")
    while sleep 3; do
        echo "  $(find "$folder"/lib/python*/site-packages -maxdepth 1 -name '*.dist-info' | wc -l) of up to $wanted packages"
    done
}

with_pip() {
    local counting code=0
    "$python" -m venv "$folder"
    count_packages &
    counting=$!
    # --no-deps, since the lock is complete: a resolver would look for newer package[extra], which have no hashes
    "$folder/bin/python" -m pip install --disable-pip-version-check --no-compile --no-deps --require-hashes -r "$lock" ||
        code=$?
    kill "$counting"
    ((code == 0)) || exit $code
    # pip would compile files one by one, tests of packages included
    "$folder/bin/python" -m compileall -qq -j 0 -x '/tests?/' "$folder/lib" || true
}

installer=$python
if ! "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv "$folder"
    installer=$folder/bin/python
fi
echo "installing $lock into $folder"
with_uv || { echo "uv cannot install it here: pip does, which takes a minute or more"; with_pip; }
