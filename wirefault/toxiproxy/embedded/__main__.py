"""``python -m wirefault.toxiproxy.embedded``: a Toxiproxy server in Python."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wirefault.core.sockets import LOOPBACK, Address
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.server import serve_proxies

_DEFAULT_PORT = 8474


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m wirefault.toxiproxy.embedded", description=__doc__)
    parser.add_argument("--host", default=LOOPBACK, help="host of the HTTP API (default: %(default)s)")
    parser.add_argument("--port", type=int, default=_DEFAULT_PORT, help="its port (default: %(default)s)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="JSON array of proxies to start with")
    parser.add_argument("--proxy-metrics", action="store_true", help="count bytes per proxy at /metrics")
    options = parser.parse_args(arguments)
    address = Address(options.host, options.port)
    return serve_proxies(address, options.config, Metrics(proxies=options.proxy_metrics))


if __name__ == "__main__":
    sys.exit(main())
