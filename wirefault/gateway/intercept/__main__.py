"""``python -m wirefault.gateway.intercept``: the ingress, until SIGTERM, SIGINT or its launcher's end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import uvloop

from wirefault.core.control_access import inherited_token
from wirefault.core.lab_folder import logs_folder, state_file
from wirefault.core.processes import TOPOLOGY_VARIABLE, ingress_file, watch_lifeline
from wirefault.core.sockets import listen
from wirefault.gateway.intercept.ingress import Ingress
from wirefault.gateway.intercept.lane_state import IngressHistory, LaneState
from wirefault.gateway.intercept.link_routes import LinkRoutes
from wirefault.gateway.intercept.namespace import open_offer_socket, serve_namespaces
from wirefault.gateway.intercept.policy import Policy, intercept_of
from wirefault.gateway.intercept.router import Router
from wirefault.gateway.intercept.unresolved import UnresolvedNames
from wirefault.wiring.topology import Topology, topology_from


class TopologyFile:
    """A lane's current topology; call it. The launcher rewrites the file once Toxiproxy has its proxies.

    Without a file the topology comes from the environment. Construction and calls raise ``OSError`` and
    ``ValueError``.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get(TOPOLOGY_VARIABLE)
        self._path = Path(path) if path else None
        self._read_at = self._written()
        self._topology = topology_from(environ)

    def __call__(self) -> Topology:
        written = self._written()
        if self._path is not None and written not in (0, self._read_at):
            self._topology, self._read_at = Topology.load(self._path), written
        return self._topology

    def _written(self) -> int:
        """Return the file's modification time in nanoseconds; 0 for a missing file."""
        try:
            return self._path.stat().st_mtime_ns if self._path is not None else 0
        except FileNotFoundError:
            return 0


async def _serve() -> None:
    topology = TopologyFile(os.environ)
    lane = topology()
    if lane.ingress is None:
        raise ValueError("this lab's wiring intercepts nothing")
    spec = intercept_of(lane)
    state = LaneState(state_file(os.environ), lane.lab_id, lane.lane)
    history = IngressHistory(logs_folder(os.environ), lane.lane, state, _warn)
    routes = LinkRoutes(topology, state, scripted=spec.models == "scripted")
    policy = Policy(spec.only, spec.pass_, spec.refuse, spec.offline, routes.stays_inside, routes.wired_name)
    router = Router(routes, policy, lambda: topology().egress)
    unresolved = UnresolvedNames(topology, state)
    ingress = Ingress(router, state, history, inherited_token(os.environ), unresolved)
    with ExitStack() as at_end:
        at_end.callback(state.close)
        at_end.callback(history.close)
        serving = [asyncio.ensure_future(ingress.serve_proxy(listen("ingress", lane.ingress)))]
        if os.environ.get(TOPOLOGY_VARIABLE):
            at = Path(os.environ[TOPOLOGY_VARIABLE])
            namespaces = open_offer_socket(at)
            at_end.callback(ingress_file(at).unlink, missing_ok=True)
            serving.append(
                asyncio.ensure_future(serve_namespaces(namespaces, ingress.take, ingress.dns_code))
            )
        stopped = asyncio.ensure_future(_until_stopped())
        ended, _ = await asyncio.wait([stopped, *serving], return_when=asyncio.FIRST_COMPLETED)
        for service in serving:
            service.cancel()
        await asyncio.wait(serving)
        for first in ended:
            first.result()  # a service that ended without a signal has failed


async def _until_stopped() -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)

    def on_launchers_end() -> None:
        loop.call_soon_threadsafe(stop.set)

    watch_lifeline(os.environ, on_launchers_end)
    await stop.wait()


def _warn(sentence: str) -> None:
    sys.stderr.write(f"ingress: {sentence}\n")


def main() -> int:
    """Return 0 after an orderly end, 1 if an address or the topology is not available."""
    try:
        uvloop.run(_serve())
    except (OSError, ValueError) as error:
        _warn(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
