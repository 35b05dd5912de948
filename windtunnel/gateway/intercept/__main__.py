"""``python -m windtunnel.gateway.intercept``: the front, until SIGTERM, SIGINT or its launcher's end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from windtunnel.core.lifeline import watch
from windtunnel.core.sockets import listen
from windtunnel.gateway.intercept.front import Front
from windtunnel.gateway.intercept.front_history import FrontHistory
from windtunnel.gateway.intercept.guide import Guide
from windtunnel.gateway.intercept.lane_state import LaneState
from windtunnel.gateway.intercept.policy import Policy
from windtunnel.gateway.intercept.routes import Routes, intercept_of
from windtunnel.gateway.intercept.topology_file import TopologyFile


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    topology = TopologyFile(os.environ)
    lane = topology()
    if lane.front is None:
        raise ValueError("this lab's wiring intercepts nothing")
    state = LaneState(Path(os.environ.get("STATE_DB") or "state/state.db"), lane.lab_id, lane.lane)
    history = FrontHistory(Path(os.environ.get("LOGS_DIR") or "logs"), lane.lane, state, _tell)
    routes = Routes(topology, state)
    spec = intercept_of(lane)
    policy = Policy(
        spec.only, spec.pass_, spec.refuse, spec.offline, lambda *target: routes.wired(*target) is not None
    )
    front = Front(Guide(routes, policy, lambda: topology().egress), state, history)
    serving = asyncio.ensure_future(front.serve_proxy(listen("front", lane.front)))
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, serving.cancel)

    def on_launchers_end() -> None:
        loop.call_soon_threadsafe(serving.cancel)

    watch(os.environ, on_launchers_end)
    await asyncio.wait([serving])
    history.close()
    state.close()


def _tell(sentence: str) -> None:
    sys.stderr.write(f"front: {sentence}\n")


def main() -> int:
    """The exit code: 0 after an orderly end, 1 if an address or the topology cannot be had."""
    try:
        uvloop.run(_serve())
    except (OSError, ValueError) as error:
        _tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
