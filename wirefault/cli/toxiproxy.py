"""``wirefault toxiproxy``: the embedded Toxiproxy alone, with the flags of ``toxiproxy-server``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from wirefault._version import __version__
from wirefault.cli.help import Command, option
from wirefault.core.errors import InputError, nearest
from wirefault.core.sockets import LOOPBACK, TOXIPROXY_PORT, Address

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class _GoFlags(Command):
    """A command whose flags can be written as for Go programs, too: ``-port=1``, ``-proxy-metrics=false``.

    Every error is one line.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {
            name.lstrip("-"): parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in parameter.opts
        }
        arguments = list(_click_arguments(iter(args), flags))
        try:
            return super().parse_args(ctx, arguments)
        except click.UsageError as error:
            raise InputError(error.format_message()) from None


def _click_arguments(words: Iterator[str], flags: dict[str, click.Option]) -> Iterator[str]:
    """Rewrite Go's spelling of flags as click's. Raises ``InputError``."""
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        dashes = len(word) - len(word.lstrip("-"))
        if not dashes or not name:
            raise InputError(
                f"unexpected argument {word!r}: this command takes flags only, such as -port 8474"
            )
        name = "help" if name == "h" else name
        if name not in flags or dashes > 2:
            raise InputError(f"unknown flag {word!r}{nearest(f'-{name}', (f'-{known}' for known in flags))}")
        if flags[name].is_flag:
            if equals and value not in _TRUE + _FALSE:
                raise InputError(f"{word}: must be true or false")
            if value not in _FALSE:
                yield f"--{name}"
        else:
            if not equals:
                value = next(words, "")
            if not value:
                raise InputError(f"{word}: missing value, such as -{name}={_SAMPLES[name]}")
            yield f"--{name}={value}"


_SAMPLES = {"host": "127.0.0.1", "port": "8474", "config": "proxies.json", "seed": "1"}


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        # --help must not import the server
        from wirefault.toxiproxy.embedded.api import VERSION

        click.echo(f"toxiproxy-server version {VERSION} (embedded in Wirefault {__version__})")
        context.exit()


@click.command(
    "toxiproxy",
    cls=_GoFlags,
    examples=("wirefault toxiproxy", "wirefault toxiproxy -port=0 -config=proxies.json -proxy-metrics"),
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
    help="Start with the proxies of this file: JSON as for POST /populate. Its toxics are ignored, as in"
    " Toxiproxy, and a line says so.",
)
@option(
    "--seed",
    type=int,
    metavar="N",
    help="Draw toxicity, jitter and slices with this seed: equal for connections in the same order. (In"
    " Toxiproxy 2.12 the seed has no effect.)",
)
@option("--proxy-metrics", is_flag=True, help="Count bytes, for Prometheus at /metrics.")
@option("--runtime-metrics", is_flag=True, help="Show memory, files and CPU time of the process there.")
@option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def toxiproxy_command(
    host: str, port: int, config: Path | None, seed: int | None, proxy_metrics: bool, runtime_metrics: bool
) -> None:
    """Run the embedded Toxiproxy alone, for clients of every language. Ctrl-C ends it.

    It takes the flags of toxiproxy-server, with one dash or two.
    """
    # --help must not import the server
    from wirefault.toxiproxy.embedded.metrics import Metrics
    from wirefault.toxiproxy.embedded.server import serve_proxies

    metrics = Metrics(proxies=proxy_metrics, runtime=runtime_metrics)
    sys.exit(serve_proxies(Address(host, port), config, metrics, seed))
