"""An API served in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
import requests
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.support import PATIENCE_S, until
from wirefault.core.api_server import api_in_thread


async def blocking(request: Request) -> PlainTextResponse:
    return PlainTextResponse(await run_in_threadpool(lambda: threading.current_thread().name))


async def endless(request: Request) -> PlainTextResponse:
    await asyncio.Event().wait()
    return PlainTextResponse("never")


def threads_left() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("api", "AnyIO worker thread")]


APP = Starlette(routes=[Route("/", blocking), Route("/endless", endless)])


def test_server_runs_until_context_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = "http://127.0.0.1:{1}".format(*listener.getsockname())
        with api_in_thread(APP, listener), requests.Session() as session:
            assert "worker" in session.get(url, timeout=PATIENCE_S).text
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=PATIENCE_S)
    # a leftover thread would keep the process alive
    until(lambda: not threads_left(), "the end of all threads")


def test_request_in_progress_does_not_delay_shutdown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        with api_in_thread(APP, listener):
            client.connect(listener.getsockname())
            client.settimeout(PATIENCE_S)
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1 << 16)
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert "api" not in threads_left()
        while client.recv(1 << 16):
            pass
