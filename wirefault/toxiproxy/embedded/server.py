"""Runs the embedded server on a listening socket: the API and all proxies in one event loop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wirefault.toxiproxy.embedded.api import create_api
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.proxy_collection import ProxyCollection


class EmbeddedServer:
    """``run`` serves until ``stop`` (from any thread), SIGTERM or SIGINT; then all proxies are closed.

    ``populate`` creates the first proxies; ``ready`` is called once requests are taken.
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
        """Blocks. Call it from the main thread, which the signals reach. Raises what ``populate`` raises.

        Returns the signal that ended it, None for ``stop``.
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
        """Takes a signal that comes before uvicorn listens to signals, and the one that ended uvicorn, which
        raises it once more."""
        self._ended_by = signal.Signals(number)
        self.stop()

    def stop(self) -> None:
        self._server.should_exit = True

    async def _serve(self) -> None:
        try:
            if self._populate:
                await self._populate(self._proxies)
            self._ready()  # the socket listens already: a client that connects now is served in a moment
            await self._server.serve(sockets=[self._listener])
        finally:
            self._proxies.stop()
