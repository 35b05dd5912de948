"""Run the control plane of one lane: ``python -m proxy_manager``."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path

from proxy_manager.api import create_manager_api
from proxy_manager.gateway_control import GatewayControl
from proxy_manager.loop import Loop
from proxy_manager.proxies import LaneProxies
from proxy_manager.reconcile import Reconciler
from wirefault.core.api_server import api_in_thread
from wirefault.core.control_access import inherited_token
from wirefault.core.lab_folder import logs_folder, state_file
from wirefault.core.processes import watch_lifeline
from wirefault.core.sockets import listen
from wirefault.state.handoffs import FILE_NAME
from wirefault.state.state import State, check_version
from wirefault.state.state_files import RunLock
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.wiring.topology import Topology, topology_from


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proxy_manager", description=__doc__)
    parser.add_argument("--heal", action="store_true", help="remove the lane's toxics and proxies, then exit")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s proxy_manager %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:
        topology = topology_from(os.environ)
        with ToxiproxyClient(topology.toxiproxy) as client:
            return heal_once(client, topology) if arguments.heal else serve(client, topology)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"proxy_manager: {error}\n")
        return 1


def _state_path() -> Path:
    return state_file(os.environ)


def heal_once(client: ToxiproxyClient, topology: Topology) -> int:
    """Remove the lane's proxies, for a launcher whose manager is gone. Returns the exit code.

    Includes links found at run time: only ``state.db`` has them.
    """
    try:
        with State(_state_path()) as state:
            found_links = [row.link for row in state.found_links.rows(topology.lab_id, topology.lane)]
        LaneProxies(client, replace(topology, links=topology.links.adding(found_links))).remove()
    except (ToxiproxyError, sqlite3.Error) as error:
        sys.stderr.write(f"proxy_manager: could not heal: {error}\n")
        return 1
    return 0


def serve(client: ToxiproxyClient, topology: Topology) -> int:
    state_path = _state_path()
    check_version(state_path)
    # natively each lab has a unique id and the launcher a lock; under Compose the id is always the same
    lock = RunLock(state_path.parent, f"manager-{topology.lab_id}-{topology.lane}")
    if os.environ.get("LAB_ID") and not lock.take():
        raise OSError(f"another lab is up in this folder and uses its {state_path}; end it first")
    logs, handoffs = logs_folder(os.environ), state_path.parent / FILE_NAME
    proxies = LaneProxies(client, topology)
    token = inherited_token(os.environ)
    gateway = GatewayControl(topology.control, token, topology.ingress)

    def make_reconciler(state: State) -> Reconciler:
        lab_id, lane = topology.lab_id, topology.lane
        return Reconciler(state, proxies, gateway, logs, lab_id, lane, time.time, time.monotonic)

    def open_state() -> State:
        return State(state_path)

    loop = Loop(open_state, state_path, proxies, make_reconciler, topology.lab_id, topology.lane)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, loop.end_requested.set)
    watch_lifeline(os.environ, loop.stop.set)
    listener = _listen(topology)
    with api_in_thread(create_manager_api(loop, topology, open_state, token, logs, handoffs), listener):
        loop.run()
    if topology.proxy_prefix:
        heal_once(client, topology)  # other labs use this server, too: remove this lab's proxies
    gateway.close()
    lock.free()
    return 0


def _listen(topology: Topology) -> socket.socket:
    try:
        return listen("manager", topology.manager)
    except OSError as error:
        raise OSError(f"cannot listen on {topology.manager}: {error.strerror or error}") from None


if __name__ == "__main__":
    sys.exit(main())
