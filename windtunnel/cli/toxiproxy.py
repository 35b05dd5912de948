"""``windtunnel toxiproxy``: the embedded Toxiproxy by itself."""

from __future__ import annotations

import os

import click

from windtunnel.core.sockets import LOOPBACK
from windtunnel.lab.process import python
from windtunnel.links.catalog import TOXIPROXY_PORT


@click.command("toxiproxy")
@click.option("--host", default=LOOPBACK, show_default=True, help="host of the HTTP API")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=TOXIPROXY_PORT,
    show_default=True,
    help="its port; 0: any",
)
@click.option("--config", metavar="FILE", help="proxies to start with: what POST /populate takes")
@click.option("--proxy-metrics", is_flag=True, help="count bytes, for Prometheus at /metrics")
def toxiproxy_command(host: str, port: int, config: str | None, proxy_metrics: bool) -> None:
    """Run the embedded Toxiproxy by itself, for clients of every language. Ctrl-C ends it."""
    arguments = ["--host", host, "--port", str(port)]
    if config:
        arguments += ["--config", config]
    if proxy_metrics:
        arguments.append("--proxy-metrics")
    # in place of this process, so that a terminal's signals reach the server
    serve = python("windtunnel.toxiproxy.embedded", *arguments)
    os.execv(serve[0], serve)
