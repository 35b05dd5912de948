"""``wirefault toxiproxy``: the embedded Toxiproxy alone."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wirefault.cli.help import Command, option
from wirefault.core.sockets import LOOPBACK, TOXIPROXY_PORT, Address


@click.command(
    "toxiproxy",
    cls=Command,
    examples=("wirefault toxiproxy", "wirefault toxiproxy --port 0 --config proxies.json --proxy-metrics"),
)
@option("--host", default=LOOPBACK, show_default=True, help="Serve the HTTP API on this host.")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=TOXIPROXY_PORT,
    show_default=True,
    help="Serve it on this port; 0: any free one.",
)
@option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start with the proxies of this file: JSON as for POST /populate.",
)
@option("--proxy-metrics", is_flag=True, help="Count bytes, for Prometheus at /metrics.")
def toxiproxy_command(host: str, port: int, config: Path | None, proxy_metrics: bool) -> None:
    """Run the embedded Toxiproxy alone, for clients of every language. Ctrl-C ends it."""
    # --help must not import the server
    from wirefault.toxiproxy.embedded.server import serve_proxies

    sys.exit(serve_proxies(Address(host, port), config, proxy_metrics=proxy_metrics))
