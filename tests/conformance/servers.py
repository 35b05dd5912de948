"""Starts the two servers to compare, and acts as both ends of the connections through them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.shared_imports import fork
from tests.support import PATIENCE_S, ROOT, until
from wirefault.core.sockets import SOCKETS_VARIABLE
from wirefault.lab.process import Child, python, start
from wirefault.toxiproxy.answers import ProxyState
from wirefault.toxiproxy.client import ToxiproxyClient


@contextlib.contextmanager
def running(command: list[str], url: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server process for the block; yield it once the URL responds."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, **options)
    with _serving(process, url):
        yield process


@contextlib.contextmanager
def _serving(server: Child, url: str) -> Iterator[None]:
    """Wait until the URL responds; end the server after the block."""
    try:
        with ToxiproxyClient(url) as client:
            until(lambda: server.poll() is not None or answers(client), f"a server at {url}")
        assert server.poll() is None, f"the server for {url} ended with {server.returncode}"
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_S)


def answers(client: ToxiproxyClient) -> bool:
    with contextlib.suppress(Exception):
        return bool(client.version())
    return False


@contextlib.contextmanager
def embedded_server(port: int = 0, *arguments: str) -> Iterator[str]:
    """Fork the server, as the launcher does: starting Python and importing take a quarter of a second."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        environ = os.environ | {SOCKETS_VARIABLE: json.dumps({"toxiproxy": listener.fileno()})}
        command = python("wirefault.toxiproxy.embedded", *arguments)
        server = start("toxiproxy", command, environ, [listener.fileno()], None, fork)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with _serving(server.child, url):
            yield url


def real_server_path() -> str | None:
    return os.environ.get("TOXIPROXY_SERVER") or shutil.which("toxiproxy-server")


@contextlib.contextmanager
def real_server(path: str, *arguments: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with running([path, "-port", str(port), *arguments], url, stderr=subprocess.DEVNULL):
        yield url


@dataclass
class Recorder:
    """An upstream that records what each of its connections received and how it ended.

    ``answer(received, connection)`` is called after each piece; by default the piece is sent back.
    """

    answer: Callable[[bytes, socket.socket], None] = lambda piece, connection: connection.sendall(piece)
    received: list[bytes] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    @property
    def all_received(self) -> bytes:
        return b"".join(self.received)

    def serve(self, connection: socket.socket) -> None:
        try:
            while piece := connection.recv(65536):
                self.received.append(piece)
                self.answer(piece, connection)
            self.ends.append("closed")
            self.answer(b"", connection)
        except ConnectionResetError:
            self.ends.append("reset")
        except OSError:
            self.ends.append("closed")


class Client(socket.socket):
    """A client's socket whose reads name how they ended."""

    def see(self, size: int = 65536) -> bytes | str:
        """The next read: bytes, or ``closed``, ``reset``, ``silence`` (nothing for 0.1 s)."""
        self.settimeout(0.1)
        try:
            return self.recv(size) or "closed"
        except TimeoutError:
            return "silence"
        except ConnectionResetError:
            return "reset"
        finally:
            self.settimeout(PATIENCE_S)

    def read(self, size: int) -> bytes:
        """Read that many bytes, or fewer if the connection ends first."""
        pieces = bytearray()
        while len(pieces) < size and (piece := self.recv(size - len(pieces))):
            pieces += piece
        return bytes(pieces)

    def cuts(self, expected: bytes) -> set[int]:
        """Read that many bytes; return the total after each read. A slow reader sees fewer cuts."""
        received, cuts = b"", set()
        while len(received) < len(expected) and (piece := self.recv(len(expected) - len(received))):
            received += piece
            cuts.add(len(received))
        assert received == expected
        return cuts

    def ending(self) -> str:
        """Wait for the end of the connection, without data before it: ``closed`` or ``reset``."""
        try:
            assert self.recv(1) == b""
        except ConnectionResetError:
            return "reset"
        return "closed"


@dataclass
class Proxied:
    """A proxy with a unique name on the server under test."""

    client: ToxiproxyClient
    state: ProxyState
    opened: list[socket.socket] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.state.name

    def dial(self) -> Client:
        host, _, port = self.state.listen.rpartition(":")
        connection = Client(socket.AF_INET, socket.SOCK_STREAM)
        self.opened.append(connection)
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect((host, int(port)))
        except OSError:  # thousands may be refused before the end of a test
            connection.close()
            raise
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def add(
        self, kind: str, stream: str, name: str = "toxic", toxicity: float = 1.0, **attributes: int
    ) -> None:
        body = {
            "name": name,
            "type": kind,
            "stream": stream,
            "toxicity": toxicity,
            "attributes": attributes,
        }
        self.client.send("POST", f"/proxies/{self.name}/toxics", body)

    def update(self, name: str = "toxic", toxicity: float | None = None, **attributes: int) -> None:
        body: dict[str, Any] = {"attributes": attributes}
        if toxicity is not None:
            body["toxicity"] = toxicity
        self.client.send("PATCH", f"/proxies/{self.name}/toxics/{name}", body)

    def remove(self, name: str = "toxic") -> None:
        self.client.remove_toxic(self.name, name)

    def close(self) -> None:
        for connection in self.opened:
            connection.close()


@dataclass
class Rig(Proxied):
    """A proxy in front of an upstream that replies."""

    upstream: Recorder = field(kw_only=True)

    def dial_and_talk(self) -> Client:
        """A connection with data in both directions: its links surely exist."""
        connection = self.dial()
        connection.sendall(b"hello")
        assert connection.read(5) == b"hello"
        return connection


@dataclass
class Line(Proxied):
    """A proxy whose both ends the test controls."""

    listener: socket.socket = field(kw_only=True)

    def open(self) -> tuple[Client, Client]:
        """Both ends of a connection after one byte in each direction."""
        client = self.dial()
        client.sendall(b"?")
        server = Client(fileno=self.listener.accept()[0].detach())
        self.opened.append(server)
        server.settimeout(PATIENCE_S)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert server.read(1) == b"?"
        server.sendall(b"!")
        assert client.read(1) == b"!"
        return client, server

    def flow(self, stream: str) -> tuple[Client, Client]:
        """The sending and the receiving end of that stream."""
        client, server = self.open()
        return (client, server) if stream == "upstream" else (server, client)
