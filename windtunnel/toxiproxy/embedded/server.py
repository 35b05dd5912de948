"""Runs the embedded server on a listening socket: the API and all proxies in one event loop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable

import uvicorn
import uvloop

from windtunnel.toxiproxy.embedded.api import create_api
from windtunnel.toxiproxy.embedded.metrics import Metrics
from windtunnel.toxiproxy.embedded.proxy_collection import ProxyCollection


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
        config = uvicorn.Config(
            create_api(self._proxies, metrics),
            http="httptools",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Blocks. Call it from the main thread, which the signals reach. Raises what ``populate`` raises."""
        before = _ignore_after(signal.SIGTERM), _ignore_after(signal.SIGINT)
        try:
            uvloop.run(self._serve())
        finally:
            for restore in before:
                restore()

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


def _ignore_after(number: signal.Signals) -> Callable[[], None]:
    """Ignores that signal once uvicorn is done: it raises the signal that ended it once more.

    Returns what restores the handler that was set before.
    """
    previous = signal.signal(number, lambda *_: None)

    def restore() -> None:
        signal.signal(number, previous)

    return restore
