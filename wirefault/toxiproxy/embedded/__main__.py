"""``python -m wirefault.toxiproxy.embedded``: a Toxiproxy server in Python."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path

from wirefault.core.exit_codes import LAB_FAILED, USAGE
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE
from wirefault.core.lifeline import watch
from wirefault.core.sockets import LOOPBACK, Address, address_of, listen
from wirefault.toxiproxy.embedded.api import VERSION
from wirefault.toxiproxy.embedded.config_file import ConfigFileError, create_proxies, read_starting_proxies
from wirefault.toxiproxy.embedded.server import EmbeddedServer

_DEFAULT_PORT = 8474


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    return serve_proxies(
        Address(options.host, options.port), options.config, proxy_metrics=options.proxy_metrics
    )


def serve_proxies(address: Address, config: Path | None, *, proxy_metrics: bool) -> int:
    """Serves until SIGTERM, SIGINT or the end of the launcher; what goes wrong is said on standard error.

    The exit code: 130 after SIGINT, 64 for a bad file, 70 if it cannot listen. ``config``: a file with the
    proxies to start with.
    """
    try:
        rows = read_starting_proxies(config) if config else []
        listener = listen("toxiproxy", address)
    except ConfigFileError as error:
        return _failed(str(error), USAGE)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        return _failed(f"cannot listen on {address}: {reason}; choose another --port or --host", LAB_FAILED)
    server = EmbeddedServer(
        listener,
        proxy_metrics=proxy_metrics,
        populate=partial(create_proxies, path=config, rows=rows) if config else None,
        ready=partial(_say, f"embedded Toxiproxy {VERSION} listens on {address_of(listener).url}"),
    )
    watch(os.environ, server.stop)
    try:
        ended_by = server.run()
    except ConfigFileError as error:
        listener.close()
        return _failed(str(error), USAGE)
    if ended_by != signal.SIGINT:
        return 0
    sys.stderr.write(f"{INTERRUPTED_LINE}\n")
    return INTERRUPTED


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m wirefault.toxiproxy.embedded", description=__doc__)
    parser.add_argument("--host", default=LOOPBACK, help="host of the HTTP API (default: %(default)s)")
    parser.add_argument("--port", type=int, default=_DEFAULT_PORT, help="its port (default: %(default)s)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="proxies to start with, a JSON array")
    parser.add_argument("--proxy-metrics", action="store_true", help="count bytes, at /metrics")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _failed(text: str, code: int) -> int:
    sys.stderr.write(f"embedded Toxiproxy: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
