"""Serve the services of these links, or all, until stopped: ``python -m flask_tools [LINK ...]``."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from flask import Flask

from flask_tools.app import Servers, create_service
from wirefault.core.processes import watch_lifeline
from wirefault.core.sockets import listen
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import Topology, topology_from

DEFAULT_EFFECTS_DB = "state/effects.db"


def main(names: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serve; return the exit code: 0 when stopped, 1 for a port in use, 2 for an invalid name or setting."""
    unknown = [name for name in names if name not in lab_links().tool_names]
    if unknown:
        return _fail(2, f"unknown service {unknown[0]!r}; valid: {', '.join(lab_links().tool_names)}")
    # waitress warns about any queue, which is normal here
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    try:
        topology = topology_from(environ)
        apps = {name: _app(name, environ) for name in dict.fromkeys(names or lab_links().tool_names)}
    except (ValueError, KeyError, OSError) as error:
        return _fail(2, f"cannot start: {error}")
    listeners: dict[socket.socket, Flask] = {}
    try:
        for name, app in apps.items():
            listeners[_listen(name, topology, environ)] = app
    except OSError as error:
        for listener in listeners:
            listener.close()
        return _fail(1, f"cannot listen: {error}")
    return _serve(listeners, environ)


def _app(name: str, environ: Mapping[str, str]) -> Flask:
    return create_service(name, Path(environ.get("EFFECTS_DB") or DEFAULT_EFFECTS_DB), environ)


def _listen(name: str, topology: Topology, environ: Mapping[str, str]) -> socket.socket:
    address = topology.services[name]
    try:
        return listen(lab_links()[name].service, address, environ)
    except OSError as error:
        raise OSError(f"{lab_links()[name].service} on {address}: {error.strerror or error}") from None


def _serve(listeners: Mapping[socket.socket, Flask], environ: Mapping[str, str]) -> int:
    with Servers(listeners) as servers:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: servers.stop())
        watch_lifeline(environ, servers.stop)
        servers.run()
    return 0


def _fail(code: int, message: str) -> int:
    sys.stderr.write(f"flask_tools: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
