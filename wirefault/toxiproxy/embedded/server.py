"""The embedded server's process: API and proxies in one event loop, and the ``--config`` file."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wirefault.core.errors import LAB_FAILED, USAGE, nearest
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE
from wirefault.core.processes import watch_lifeline
from wirefault.core.sockets import Address, bound_address, listen
from wirefault.toxiproxy.embedded.api import VERSION, create_api
from wirefault.toxiproxy.embedded.go_json import ApiError
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.proxies import ProxyCollection


class EmbeddedServer:
    """Serves until ``stop`` (from any thread), SIGTERM or SIGINT, then closes all proxies.

    ``populate`` creates the first proxies; ``ready`` is called once requests are accepted.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        metrics: Metrics,
        populate: Callable[[ProxyCollection], Awaitable[None]] | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._listener = listener
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
_IGNORED = ("toxics", "logger")
"""Keys of what ``GET /proxies`` shows that the real server ignores in its file, too."""


class ConfigFileError(Exception):
    """The config file cannot be used; the text has the file, the place and the reason."""


@dataclass
class StartingProxies:
    """The proxies of a config file."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The known keys of each proxy, in lower case."""
    notices: list[str] = field(default_factory=list)
    """A line for each part of the file that has no effect."""

    async def create(self, proxies: ProxyCollection) -> None:
        """Create the proxies. Raises ``ConfigFileError`` if one cannot listen."""
        for number, row in enumerate(self.rows, start=1):
            try:
                await proxies.create(json.dumps(row).encode())
            except ApiError as error:
                raise ConfigFileError(
                    f"{self.path}: proxy {number} ({row['name']}): {error.message}"
                ) from None


def read_starting_proxies(path: Path) -> StartingProxies:
    """Read the file's proxies, a JSON array as for ``POST /populate``. Raises ``ConfigFileError``.

    As in the real server, keys match in any letter case, and null leaves a default.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigFileError(f"cannot read {path}: {reason}") from None
    except json.JSONDecodeError as error:
        raise ConfigFileError(f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigFileError(f"{path}: nested too deeply") from None
    if not isinstance(rows, list):
        raise ConfigFileError(f"{path}: must be an array of proxies, not {json.dumps(rows)[:40]}")
    starting = StartingProxies(path)
    for number, row in enumerate(rows, start=1):
        where = f"{path}: proxy {number}"
        try:
            known, ignored = _known_keys(row)
            if any(known["name"] == other["name"] for other in starting.rows):
                raise ValueError(f"duplicate name {known['name']!r}")
        except ValueError as error:
            raise ConfigFileError(f"{where}: {error}") from None
        starting.rows.append(known)
        starting.notices += [f"{where} ({known['name']}): {line}" for line in ignored]
    return starting


def _known_keys(row: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the known keys of a proxy, and a line for each ignored one. Raises ``ValueError``."""
    if not isinstance(row, dict):
        raise ValueError(f"must be an object, not {json.dumps(row)[:40]}")
    known: dict[str, Any] = {}
    ignored: list[str] = []
    has_toxics = False
    for key, value in row.items():
        name = key.lower()
        if name in _IGNORED:
            has_toxics |= name == "toxics" and bool(value)
        elif name not in _CONFIG_TYPES:
            suggestion = nearest(key, (*_CONFIG_TYPES, "toxics"))
            if "did you mean" in suggestion:
                raise ValueError(f"unknown key {key!r}{suggestion}")
            ignored.append(f"unknown key {key!r} is ignored")
        elif value is not None:
            known[name] = value
            if not isinstance(value, expected := _CONFIG_TYPES[name]):
                kind = "true or false" if expected is bool else "a string"
                raise ValueError(f"{name} must be {kind}, not {json.dumps(value)[:40]}")
    if missing := next((key for key in _REQUIRED if not known.get(key)), None):
        raise ValueError(f"missing {missing}")
    if has_toxics:
        add = f"POST /proxies/{quote(known['name'], safe='')}/toxics"
        ignored.insert(0, f"toxics are ignored, as in Toxiproxy: add them by {add}")
    return known, ignored


def serve_proxies(address: Address, config: Path | None, metrics: Metrics, seed: int | None = None) -> int:
    """Serve until SIGTERM, SIGINT or the end of the launcher; errors go to standard error.

    ``seed`` repeats the draws of toxics for connections in the same order. Returns the exit code: 130 after
    SIGINT, 64 for a bad ``config`` file, 70 if the port cannot be bound.
    """
    try:
        starting = read_starting_proxies(config) if config else None
        listener = listen("toxiproxy", address)
    except ConfigFileError as error:
        return _failed(str(error), USAGE)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        return _failed(f"cannot listen on {address}: {reason}; choose another --port or --host", LAB_FAILED)
    for notice in starting.notices if starting else ():
        sys.stderr.write(f"embedded Toxiproxy: {notice}\n")
    if seed is not None:
        random.seed(seed)
    server = EmbeddedServer(
        listener,
        metrics=metrics,
        populate=starting.create if starting else None,
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
