"""``python -m proxy_manager``: the control plane of one lane. ``--heal`` heals, removes and ends."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import waitress

from proxy_manager.client import ToxiproxyClient, ToxiproxyError
from proxy_manager.gateway_control import GatewayControl
from proxy_manager.loop import Loop
from proxy_manager.proxies import LaneProxies
from proxy_manager.reconcile import Reconciler
from proxy_manager.server import create_app
from windtunnel import lifeline
from windtunnel.state import State
from windtunnel.topology import Topology, listen, topology_from


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proxy_manager", description=__doc__)
    parser.add_argument("--heal", action="store_true", help="heal the lane, remove its proxies and end")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s proxy_manager %(levelname)s %(message)s")
    logging.getLogger("waitress").setLevel(logging.ERROR)
    topology = topology_from(os.environ)
    client = ToxiproxyClient(topology.toxiproxy)
    try:
        return heal_once(client, topology) if arguments.heal else serve(client, topology)
    finally:
        client.close()


def heal_once(client: ToxiproxyClient, topology: Topology) -> int:
    """For the launcher, when the manager itself is gone."""
    try:
        LaneProxies(client, topology).remove()
    except ToxiproxyError as error:
        print(f"could not heal: {error}", file=sys.stderr)  # noqa: T201 - a command's own message
        return 1
    return 0


def serve(client: ToxiproxyClient, topology: Topology) -> int:
    state_path = Path(os.environ.get("STATE_DB") or "state/state.db")
    logs = Path(os.environ.get("LOGS_DIR") or "logs")
    proxies = LaneProxies(client, topology)
    gateway = GatewayControl(topology.control)

    def make_reconciler(state: State) -> Reconciler:
        return Reconciler(state, proxies, gateway, logs, topology.lab_id, topology.lane, time.time)

    loop = Loop(
        lambda: State(state_path), state_path, proxies, make_reconciler, topology.lab_id, topology.lane
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop.set())
    lifeline.watch(os.environ, loop.stop.set)
    server = waitress.create_server(
        create_app(loop, topology), sockets=[listen("manager", topology.manager)], threads=2
    )
    threading.Thread(target=server.run, name="status", daemon=True).start()
    loop.run()
    if topology.proxy_prefix:
        heal_once(client, topology)  # a server that others use too is left as it was found
    gateway.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
