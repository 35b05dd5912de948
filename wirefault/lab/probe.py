"""Compose's health check: ``python -IS probe.py HOST:PORT [PATH [STATUS]]`` succeeds once it answers 200.

``STATUS`` is the expected status of a service without a page.

It waits for the answer, so a new service is healthy at once. It pauses before it checks a service that has
already answered: starting a process in a container costs 50 ms of CPU. Standard library only.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

_WAIT_S = 5.0
_REST_S = 20.0  # both end before the timeout of Compose's check
_ANSWERED = Path("/tmp") / "answered"  # in memory: gone when the container restarts


def is_healthy(host: str, port: int, path: str, status: str = "200") -> bool:
    """Whether a GET returns that status."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            return connection.recv(64).split(b" ")[1:2] == [status.encode()]
    except OSError:
        return False


def main(address: str, path: str = "/", status: str = "200") -> int:
    host, _, port = address.rpartition(":")
    if _ANSWERED.exists():
        time.sleep(_REST_S)
    end = time.monotonic() + _WAIT_S
    while not is_healthy(host, int(port), path, status):
        if time.monotonic() > end:
            return 1
        time.sleep(0.1)
    _ANSWERED.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
