"""Runs the embedded server on a listening socket: the API and all proxies in one event loop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import uvicorn
import uvloop

from proxy_manager.embedded.api import create_api
from proxy_manager.embedded.proxies import ProxyCollection


class EmbeddedServer:
    """``run`` serves until ``stop`` (from any thread), SIGTERM or SIGINT; then all proxies are closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._proxies = ProxyCollection()
        config = uvicorn.Config(
            create_api(self._proxies),
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
        """Blocks. Call it from the main thread, which the signals reach."""
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
            await self._server.serve(sockets=[self._listener])
        finally:
            self._proxies.stop()


def _ignore_after(number: signal.Signals) -> Callable[[], None]:
    """uvicorn raises the signal that ended it once more when it is done; to end was all that it asked."""
    previous = signal.signal(number, lambda *_: None)

    def restore() -> None:
        signal.signal(number, previous)

    return restore
