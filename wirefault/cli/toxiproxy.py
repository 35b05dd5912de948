"""``wirefault toxiproxy``: the embedded Toxiproxy by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wirefault.core.sockets import LOOPBACK, Address
from wirefault.wiring.topology import TOXIPROXY_PORT


@click.command("toxiproxy")
@click.option("--host", default=LOOPBACK, show_default=True, help="host of the HTTP API")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=TOXIPROXY_PORT,
    show_default=True,
    help="its port; 0: any",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="proxies to start with: what POST /populate takes",
)
@click.option("--proxy-metrics", is_flag=True, help="count bytes, for Prometheus at /metrics")
def toxiproxy_command(host: str, port: int, config: Path | None, proxy_metrics: bool) -> None:
    """Run the embedded Toxiproxy by itself, for clients of every language. Ctrl-C ends it."""
    # the server is imported only by who starts it, not by --help
    from wirefault.toxiproxy.embedded.server import serve_proxies

    sys.exit(serve_proxies(Address(host, port), config, proxy_metrics=proxy_metrics))
