"""The server of Python's SDK over HTTP, running."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from tests.mcp.environments import command
from tests.support import PATIENCE_S, until
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address


@contextmanager
def sdk_server(program: str = "server.py") -> Iterator[str]:
    """Its address. Skips where the SDK may not be installed."""
    words = command("python_2.txt", program)
    with bind(FREE) as free:
        port = bound_address(free).port
    url = f"http://127.0.0.1:{port}/mcp"

    def answers() -> bool:
        try:
            return requests.get(url, timeout=PATIENCE_S).status_code > 0
        except requests.ConnectionError:
            return False

    with subprocess.Popen([*words, str(port)]) as started:
        try:
            until(answers, "the server")
            yield url
        finally:
            started.kill()
