"""``python -m wirefault.gateway``: serves until SIGTERM, SIGINT or the end of the launcher."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

import uvloop

import wirefault.faults.catalogue  # noqa: F401  # its import would delay the first request with a fault
from wirefault.core.control_access import inherited_token
from wirefault.core.interrupts import collect_seldom
from wirefault.core.lab_folder import logs_folder, state_file
from wirefault.core.plugins import PluginError
from wirefault.core.processes import watch_lifeline
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.gateway.server import Gateway
from wirefault.wiring.topology import topology_from


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    state_db = state_file(os.environ)
    logs = logs_folder(os.environ)
    token = inherited_token(os.environ)
    gateway = Gateway(topology_from(os.environ), state_db, logs, token=token, environ=os.environ)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, gateway.stop)

    def on_launcher_exit() -> None:
        loop.call_soon_threadsafe(gateway.stop)

    watch_lifeline(os.environ, on_launcher_exit)
    await gateway.serve()


def main() -> int:
    """Return the exit code: 0 after an orderly end, 1 if an address is taken or the topology is invalid."""
    try:
        list(MODEL_DIALECTS.values())  # a dialect that cannot be loaded is reported now, not in mid-run
    except PluginError as error:
        return _fail(error)
    gc.collect()
    gc.freeze()  # imported objects stay: collecting them again would delay a request by 20 ms or more
    collect_seldom()
    try:
        uvloop.run(_serve())
    except (OSError, ValueError) as error:
        return _fail(error)
    return 0


def _fail(error: Exception) -> int:
    sys.stderr.write(f"gateway: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
