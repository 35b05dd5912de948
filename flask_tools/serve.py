"""Several services in one process: a waitress server each, with its own threads, on one loop."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from flask import Flask
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask

from flask_tools.errors import body_of

_THREADS = 8
_MAX_CONNECTIONS = 1000
# Flask has a lower bound and refuses a larger body once all of it is read, since a client that is still
# sending when it is refused may see a reset instead of the answer. Beyond this bound waitress stops reading.
_MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
# larger than any reply, so that headers and body leave in one write
_SEND_BYTES = 1024 * 1024
_SHUTDOWN_S = 1.0


class Servers:
    """Serves each app on its listening socket until ``stop``; a context manager that closes all of them."""

    def __init__(self, apps: Mapping[socket.socket, Flask]) -> None:
        self._sockets: dict[int, Any] = {}
        self._stopping = False
        self._servers = [self._server(app, listener) for listener, app in apps.items()]

    def _server(self, app: Flask, listener: socket.socket) -> Any:
        server = create_server(
            app,
            map=self._sockets,
            sockets=[listener],
            threads=_THREADS,
            connection_limit=_MAX_CONNECTIONS,
            max_request_body_size=_MAX_BODY_BYTES,
            max_request_header_size=MAX_HEADER_BYTES,
            asyncore_use_poll=True,
            ident=None,
        )
        server.adj.send_bytes = _SEND_BYTES  # as an option it is deprecated, without a successor
        server.channel_class = _Channel
        return server

    def run(self) -> None:
        """Serves; returns after ``stop``."""
        while not self._stopping:
            wasyncore.loop(timeout=1, map=self._sockets, use_poll=True, count=1)

    def stop(self) -> None:
        """Ends ``run``; safe in a signal handler and in any thread."""
        self._stopping = True
        for server in self._servers:
            server.pull_trigger()

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.task_dispatcher.shutdown(timeout=_SHUTDOWN_S)
        wasyncore.close_all(self._sockets)


class _JsonErrorTask(ErrorTask):  # type: ignore[misc]  # waitress has no types
    """What waitress itself refuses (a malformed request, a header or body too large), as JSON."""

    def execute(self) -> None:
        error = self.request.error
        self.status = f"{error.code} {error.reason}"
        code = error.reason.lower().replace(" ", "_")
        body = json.dumps(body_of(code, f"{error.reason}: {error.body}.")).encode()
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(HTTPChannel):  # type: ignore[misc]
    error_task_class: Callable[..., Any] = _JsonErrorTask
