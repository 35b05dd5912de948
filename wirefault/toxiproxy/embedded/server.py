"""The embedded server's process: API and proxies in one event loop, and the ``--config`` file."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wirefault.core.errors import LAB_FAILED, USAGE, nearest
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE
from wirefault.core.processes import watch_lifeline
from wirefault.core.sockets import Address, bound_address, listen
from wirefault.toxiproxy.embedded.api import VERSION, create_api
from wirefault.toxiproxy.embedded.go_json import ApiError
from wirefault.toxiproxy.embedded.proxies import Metrics, ProxyCollection


class EmbeddedServer:
    """Serves until ``stop`` (from any thread), SIGTERM or SIGINT, then closes all proxies.

    ``populate`` creates the first proxies; ``ready`` is called once requests are accepted.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        proxy_metrics: bool = False,
        populate: Callable[[ProxyCollection], Awaitable[None]] | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._listener = listener
        metrics = Metrics(enabled=proxy_metrics)
        self._proxies = ProxyCollection(metrics)
        self._populate = populate
        self._ready = ready
        self._ended_by: signal.Signals | None = None
        config = uvicorn.Config(
            create_api(self._proxies, metrics),
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> signal.Signals | None:
        """Serve, in the main thread, and return the signal that ended it; None for ``stop``.

        Raises whatever ``populate`` raises.
        """
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._end) for number in numbers}
        try:
            uvloop.run(self._serve())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._ended_by

    def _end(self, number: int, _frame: object) -> None:
        """Handle a signal before uvicorn installs its handlers, and the one that uvicorn raises again."""
        self._ended_by = signal.Signals(number)
        self.stop()

    def stop(self) -> None:
        self._server.should_exit = True

    async def _serve(self) -> None:
        try:
            if self._populate:
                await self._populate(self._proxies)
            self._ready()  # the socket listens already: early clients wait in its backlog
            await self._server.serve(sockets=[self._listener])
        finally:
            self._proxies.stop()


_CONFIG_TYPES: dict[str, type] = {"name": str, "upstream": str, "listen": str, "enabled": bool}
_REQUIRED = ("name", "upstream")


class ConfigFileError(Exception):
    """The config file cannot be used; the text has the file, the place and the reason."""


def read_starting_proxies(path: Path) -> list[dict[str, Any]]:
    """Read the file's proxies, a JSON array as for ``POST /populate``. Raises ``ConfigFileError``."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigFileError(f"cannot read {path}: {reason}") from None
    except json.JSONDecodeError as error:
        raise ConfigFileError(f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}") from None
    if not isinstance(rows, list):
        raise ConfigFileError(f"{path}: must be an array of proxies, not {json.dumps(rows)[:40]}")
    names: set[str] = set()
    for number, row in enumerate(rows, start=1):
        problem = _problem(row) or (f"duplicate name {row['name']!r}" if row["name"] in names else None)
        if problem:
            raise ConfigFileError(f"{path}: proxy {number}: {problem}")
        names.add(row["name"])
    return rows


def _problem(row: Any) -> str | None:
    if not isinstance(row, dict):
        return f"must be an object, not {json.dumps(row)[:40]}"
    for key in row:
        if key not in _CONFIG_TYPES:
            return f"unknown key {key!r}{nearest(key, _CONFIG_TYPES)}"
    for key, expected in _CONFIG_TYPES.items():
        if key in row and not isinstance(row[key], expected):
            name = "true or false" if expected is bool else "a string"
            return f"{key} must be {name}, not {json.dumps(row[key])[:40]}"
    return next((f"missing {key}" for key in _REQUIRED if not row.get(key)), None)


async def create_proxies(proxies: ProxyCollection, path: Path, rows: list[dict[str, Any]]) -> None:
    """Create the proxies. Raises ``ConfigFileError`` if one cannot listen."""
    for number, row in enumerate(rows, start=1):
        try:
            await proxies.create(json.dumps(row).encode())
        except ApiError as error:
            raise ConfigFileError(f"{path}: proxy {number} ({row['name']}): {error.message}") from None


def serve_proxies(address: Address, config: Path | None, *, proxy_metrics: bool) -> int:
    """Serve until SIGTERM, SIGINT or the end of the launcher; errors go to standard error.

    Returns the exit code: 130 after SIGINT, 64 for a bad ``config`` file, 70 if the port cannot be bound.
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
        ready=partial(_print_line, f"embedded Toxiproxy {VERSION} listens on {bound_address(listener).url}"),
    )
    watch_lifeline(os.environ, server.stop)
    try:
        ended_by = server.run()
    except ConfigFileError as error:
        listener.close()
        return _failed(str(error), USAGE)
    if ended_by != signal.SIGINT:
        return 0
    sys.stderr.write(f"{INTERRUPTED_LINE}\n")
    return INTERRUPTED


def _print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _failed(text: str, code: int) -> int:
    sys.stderr.write(f"embedded Toxiproxy: {text}\n")
    return code
