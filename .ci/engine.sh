#!/usr/bin/env bash
# Provide a running Docker engine: the one that runs, else Debian's, installed if necessary and started here;
# also docker-compose (the older generation) and debootstrap.
# FOLDER has the log and the process id of an engine that this script started.   engine.sh start|stop FOLDER
set -euo pipefail

PATIENCE_S=60
# by default an engine offers thirty networks, but six labs of five networks each run at once
POOLS=(--default-address-pool base=172.16.0.0/12,size=24 --default-address-pool base=192.168.0.0/16,size=24)
action=${1:?usage: engine.sh start|stop FOLDER} folder=${2:?usage: engine.sh start|stop FOLDER}
pid_file=$folder/dockerd.pid log=$folder/dockerd.log

fail() { echo "engine.sh: $*" >&2; exit 1; }

answers() { timeout 10 docker info >/dev/null 2>&1; }

complete() {
    command -v docker-compose >/dev/null && command -v debootstrap >/dev/null &&
        command -v nft >/dev/null && command -v ip >/dev/null &&
        { answers || command -v dockerd >/dev/null; }
}

# 'docker-compose' recommends the engine
install() {
    local engine=--install-recommends
    command -v apt-get >/dev/null || fail "no Docker engine or no docker-compose, and no apt-get to install it with"
    if answers; then engine=--no-install-recommends; fi
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install --yes $engine docker-compose debootstrap nftables iproute2; } \
        </dev/null >"$folder/apt.log" 2>&1 || fail "apt-get: $(tail -n 1 "$folder/apt.log")"
}

# a killed daemon leaves the file, and another process may have its number by now
remove_stale_pid_file() {
    local file=/var/run/docker.pid
    if [[ -f $file && $(cat "/proc/$(<"$file")/comm" 2>/dev/null) != dockerd ]]; then rm -f "$file"; fi
}

# Otherwise all containers together weigh as much as one process of the tests: a lab then starts in 120 to 160 s at
# load 15, else in 33 s. The first file is of cgroup v1, the second of v2.
weigh() {
    local file=/sys/fs/cgroup/cpu/docker/cpu.shares weight=8192
    [[ -d /sys/fs/cgroup/cpu ]] || file=/sys/fs/cgroup/docker/cpu.weight weight=800
    { mkdir -p "$(dirname "$file")" && echo "$weight" >"$file"; } 2>/dev/null || true
}

start() {
    local deadline
    if answers && { complete || ((EUID != 0)); }; then return; fi
    ((EUID == 0)) || fail "no Docker engine answers: start it, or run this as root"
    complete || install
    if answers; then return; fi # the package may have started it
    if command -v cgroupfs-mount >/dev/null && ! mountpoint -q /sys/fs/cgroup; then cgroupfs-mount; fi
    remove_stale_pid_file
    setsid dockerd "${POOLS[@]}" >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    deadline=$((SECONDS + PATIENCE_S))
    until answers; do
        kill -0 "$(<"$pid_file")" 2>/dev/null || fail "dockerd ended: $(tail -n 1 "$log")"
        ((SECONDS < deadline)) || fail "dockerd does not answer after $PATIENCE_S s: $(tail -n 1 "$log")"
        sleep 0.5
    done
}

stop() {
    local deadline=$((SECONDS + PATIENCE_S)) pid
    [[ -f $pid_file ]] || return 0
    pid=$(<"$pid_file")
    kill "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do
        ((SECONDS < deadline)) || fail "dockerd ($pid) does not stop: $(tail -n 1 "$log")"
        sleep 0.5
    done
    rm -f "$pid_file"
}

mkdir -p "$folder"
case $action in
    start) start; weigh ;;
    stop) stop ;;
    *) fail "no such action: $action" ;;
esac
