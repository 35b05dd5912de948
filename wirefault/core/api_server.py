"""Serve control APIs with uvicorn, but without its signal handlers, and with errors in one format."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wirefault.core.errors import UserError

_STOP_BOUND_S = 2.0


class ApiError(Exception):
    """A refused request, which the app renders in the lab's error format."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def api_app(routes: Sequence[BaseRoute]) -> Starlette:
    """Return an app whose routes may raise ``ApiError``, and the errors of planted or damaged files."""
    unreadable = dict.fromkeys((UserError, OSError, sqlite3.Error), render_unreadable)
    return Starlette(
        routes=routes,
        exception_handlers={ApiError: _render_error, HTTPException: _render_http_error, **unreadable},
    )


async def render_unreadable(request: Request, error: Exception) -> JSONResponse:
    """Answer with the error of the lab's files."""
    message = f"the lab's state cannot be read: {error}"
    return await _render_error(request, ApiError(503, "not_readable", message))


async def _render_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return JSONResponse({"error": {"code": error.code, "message": str(error)}}, error.status)


async def _render_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    return await _render_error(request, ApiError(error.status_code, code, error.detail))


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers and ticks: ``serve`` ends when ``stopping`` is set."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpToolsProtocol,  # the class: uvicorn imports a name only after a fork
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self._stopping.wait()


@contextmanager
def api_in_thread(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serve the app on the listening socket, in a thread with its own event loop, during the context."""
    loop, stopping = uvloop.new_event_loop(), asyncio.Event()
    serving = ApiServer(app, stopping).serve([listener])
    thread = threading.Thread(target=loop.run_until_complete, args=(serving,), name="api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(_STOP_BOUND_S)
        if not thread.is_alive():
            loop.close()


def wait_for_signal() -> None:
    """Wait in the main thread until SIGTERM or SIGINT."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
