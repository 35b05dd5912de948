"""Clients that open a connection per request, in separate processes so that they share no lock.

``python -m bench.connecting`` is one client: it reports on stdout that it is ready and reads its order from
stdin.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Literal

from bench import routes
from wirefault.core.sockets import Address

_HOST = "bench.example"
_REQUESTS = 500  # distinct requests of one client


@dataclass(frozen=True)
class Visit:
    """One repeated operation: connect to ``address``, send ``opening``, optionally start TLS, send
    ``request``, close.

    A ``%d`` in ``request`` is replaced by a counter. The reply is ``routes.REPLY``. ``resumed``: TLS that
    resumes the session of the previous connection.
    """

    address: Address
    request: str
    opening: str = ""
    speaking: Literal["plain", "tls", "resumed"] = "plain"
    host: str = _HOST


@dataclass(frozen=True)
class Visits:
    """Number of visits, visits per second, and the clients' CPU time per visit in ms."""

    count: int
    per_second: float
    client_ms: float


def visit(order: Visit, clients: int, seconds: float) -> Visits:
    """Run ``clients`` clients for ``seconds``."""
    command = [sys.executable, "-m", "bench.connecting"]
    with ExitStack() as stack:
        pipes = []
        for _ in range(clients):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            assert process.stdin is not None and process.stdout is not None
            pipes.append((process.stdin, process.stdout))
        for _, stdout in pipes:
            stdout.readline()  # the client is ready
        for number, (stdin, _) in enumerate(pipes):
            print(json.dumps([asdict(order), number, seconds]), file=stdin, flush=True)
        done = [json.loads(stdout.readline()) for _, stdout in pipes]
    count = sum(made for made, _ in done)
    return Visits(count, count / seconds, sum(worked for _, worked in done) * 1000 / count)


class _Client:
    """A client with one blocking connection at a time, without verification, like most load generators."""

    def __init__(self, order: Visit, number: int) -> None:
        self._order = order
        self._number = number * _REQUESTS
        self._session: ssl.SSLSession | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def work(self, seconds: float) -> int:
        """Return the number of connections in that time."""
        made, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            with closing(self._connect()) as connection:
                self._ask(connection, self._number + made % _REQUESTS)
            made += 1
        return made

    def _connect(self) -> socket.socket:
        order = self._order
        plain = socket.create_connection((order.address.host, order.address.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.sendall(order.opening.encode())
        if order.speaking == "plain":
            return plain
        secure = self._context.wrap_socket(plain, server_hostname=order.host, session=self._session)
        if self._session is not None and not secure.session_reused:
            raise RuntimeError(f"{order.address} did not resume the previous session")
        return secure

    def _ask(self, connection: socket.socket, number: int) -> None:
        connection.sendall(self._order.request.replace("%d", str(number)).encode())
        left = len(routes.REPLY)
        while left:
            data = connection.recv(left)
            if not data:
                raise RuntimeError(f"{self._order.address} closed before its reply was complete")
            left -= len(data)
        if self._order.speaking == "resumed" and isinstance(connection, ssl.SSLSocket):
            self._session = connection.session


def _main() -> None:
    print("ready", flush=True)
    values, number, seconds = json.loads(sys.stdin.readline())
    client = _Client(Visit(**{**values, "address": Address(**values["address"])}), number)
    began = time.process_time()
    made = client.work(seconds)
    print(json.dumps([made, time.process_time() - began]))


if __name__ == "__main__":
    _main()
