"""``python -m proxy_manager.embedded``: an embedded Toxiproxy server on ``--host`` and ``--port``."""

from __future__ import annotations

import argparse
import os
import sys

from proxy_manager.embedded.server import EmbeddedServer
from windtunnel.catalog import TOXIPROXY_PORT
from windtunnel.lifeline import watch
from windtunnel.topology import LOOPBACK, Address, listen


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proxy_manager.embedded", description=__doc__)
    parser.add_argument("--host", default=LOOPBACK, help="host of the HTTP API (default: %(default)s)")
    parser.add_argument("--port", type=int, default=TOXIPROXY_PORT, help="its port (default: %(default)s)")
    options = parser.parse_args(arguments)
    address = Address(options.host, options.port)
    try:
        listener = listen("toxiproxy", address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        sys.stderr.write(f"embedded Toxiproxy: cannot listen on {address}: {reason}; choose another --port\n")
        return 1
    server = EmbeddedServer(listener)
    watch(os.environ, server.stop)
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
