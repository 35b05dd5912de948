"""An ingress for all hosts that answers itself: it returns the address that the client wanted."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tests.upstream import Upstream, requests_of
from wirefault.gateway.intercept.certificate_authority import Authority
from wirefault.gateway.intercept.namespace import open_offer_socket, serve_namespaces

_TLS_HANDSHAKE = 0x16


class AnsweringIngress:
    """``taken``: host and port of each connection that came, by either tap. ``topology`` names its file.
    ``failing``: names that do not resolve, with the DNS code.

    The address of its proxy is the gateway's control, too, where a tap asks for the authority's certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.taken: list[tuple[str, int]] = []
        self.failing: dict[str, int] = {}
        self.topology = folder / "lab.json"
        self.authority = Authority(lambda: datetime.now(UTC))
        self._proxy = Upstream(self._serve_proxy)
        self.address = self._proxy.address
        self._answering: list[threading.Thread] = []
        self._loop = asyncio.new_event_loop()

    async def take(self, client: socket.socket, host: str, port: int) -> None:
        """A namespace tap's features."""
        client.setblocking(True)
        thread = threading.Thread(target=self._answer_and_close, args=(client, host, port), daemon=True)
        thread.start()
        self._answering.append(thread)

    async def dns_code(self, name: str, *, record: bool) -> int:
        return self.failing.get(name, 0)

    def run(self) -> None:
        """Serves namespaces until ``close``."""
        with open_offer_socket(self.topology) as namespaces, suppress(asyncio.CancelledError):
            self._serving = self._loop.create_task(serve_namespaces(namespaces, self.take, self.dns_code))
            self._loop.run_until_complete(self._serving)
        self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._serving.cancel())
        self._proxy.close()
        for thread in self._answering:
            thread.join()

    def _serve_proxy(self, client: socket.socket) -> None:
        head = _peek(client, b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        if method == "CONNECT":
            client.recv(len(head))
            if b"x-tap: oneway" not in head.lower():
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            host, _, port = target.rpartition(":")
            self._answer(client, host.strip("[]"), int(port))
        elif target.startswith("/"):
            _send(client, {"pem": self.authority.pem})
        else:
            for request in requests_of(client):  # one connection serves several hosts
                address = urlsplit(request.target)
                self.taken.append((str(address.hostname), address.port or 80))
                _send(client, {"way": "http", "host": address.hostname, "port": address.port or 80})

    def _answer_and_close(self, client: socket.socket, host: str, port: int) -> None:
        with client, suppress(OSError):
            self._answer(client, host, port)

    def _answer(self, client: socket.socket, host: str, port: int) -> None:
        self.taken.append((host, port))
        if _peek(client, b"")[:1] != bytes([_TLS_HANDSHAKE]):
            _answer_all(client, {"way": "http", "host": host, "port": port})
            return
        with self.authority.context(host).wrap_socket(client, server_side=True) as encrypted:
            _answer_all(encrypted, {"way": "https", "host": host, "port": port})


def _answer_all(client: socket.socket, answer: object) -> None:
    for _ in requests_of(client):
        _send(client, answer)


def _send(client: socket.socket, answer: object) -> None:
    body = json.dumps(answer).encode()
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def _peek(client: socket.socket, mark: bytes) -> bytes:
    """All up to the mark, if that has come; it stays where it is. Raises ``OSError`` at the end."""
    size = 1
    while True:
        seen = client.recv(size, socket.MSG_PEEK)
        if not seen:
            raise OSError("it ended")
        if mark in seen:
            return seen[: seen.index(mark) + len(mark)] or seen
        size = len(seen) + 1


@contextmanager
def answering_ingress(folder: Path) -> Iterator[AnsweringIngress]:
    """It is up within the block, and has its files in that folder."""
    ingress = AnsweringIngress(folder)
    thread = threading.Thread(target=ingress.run)
    thread.start()
    try:
        yield ingress
    finally:
        ingress.close()
        thread.join()
