"""A front that answers by itself: it tells each client where its connection was to go."""

from __future__ import annotations

import asyncio
import datetime
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.upstream import FREE
from windtunnel.core.sockets import Address, address_of, bind
from windtunnel.gateway.intercept.namespace import serve_namespaces

_DAY = datetime.timedelta(days=1)


class Authority:
    """Of certificates for any host, until the test is over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])
        self.certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host[:60])])
        leaf = self._signed(name, key, x509.SubjectAlternativeName([x509.DNSName(host)]))
        file = self._folder / f"{host}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(self, name, key, extension):
        now = datetime.datetime.now(datetime.UTC)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(extension, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )


@dataclass
class Front:
    """``taken``: the host and port of each connection; ``names`` is where namespaces are offered."""

    address: Address
    names: Path
    authority: Authority
    taken: list[tuple[str, int]] = field(default_factory=list)

    async def take(self, client: socket.socket, host: str, port: int) -> None:
        """Answers every request of the connection, with or without TLS, by the place it was to go to."""
        try:
            self.taken.append((host, port))
            client.setblocking(False)
            await self._answer(client, host, port)
        except (OSError, EOFError, ssl.SSLError):
            client.close()

    async def _answer(self, client: socket.socket, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        first = await loop.run_in_executor(None, _peek, client)
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader), client, ssl=self._context(first, host)
        )
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                way = "https" if first == 0x16 else "http"
                body = json.dumps({"way": way, "host": host, "port": port, "head": head}).encode()
                transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                transport.write(b"content-length: %d\r\n\r\n" % len(body) + body)
        finally:
            transport.close()

    def _context(self, first: int, host: str) -> ssl.SSLContext | None:
        return self.authority.context(host) if first == 0x16 else None

    async def proxy(self, client: socket.socket, _peer: object) -> None:
        """What a client of the proxy tap asks for: a tunnel, with or without an answer, or one address."""
        loop = asyncio.get_running_loop()
        client.setblocking(False)
        head = b""
        try:
            first = await loop.run_in_executor(None, _peek_head, client)
            method, target, _ = first.split(b"\r\n", 1)[0].decode().split(" ")
            if method != "CONNECT":
                host, _, port = target.split("/")[2].partition(":")
                return await self.take(client, host, int(port or 80))
            while len(head) < len(first):
                head += await loop.sock_recv(client, len(first) - len(head))
            if b"x-tap: oneway" not in head.lower():
                await loop.sock_sendall(client, b"HTTP/1.1 200 OK\r\n\r\n")
            host, _, port = target.rpartition(":")
            await self.take(client, host.strip("[]"), int(port))
        except (OSError, ValueError, EOFError):
            client.close()


def _peek(client: socket.socket) -> int:
    client.setblocking(True)
    first = client.recv(1, socket.MSG_PEEK)
    client.setblocking(False)
    if not first:
        raise EOFError
    return first[0]


def _peek_head(client: socket.socket) -> bytes:
    """All up to the empty line; the client's next bytes stay where they are."""
    client.setblocking(True)
    seen, size = b"", 1
    while b"\r\n\r\n" not in seen:
        before, seen = seen, client.recv(size, socket.MSG_PEEK)
        size = len(seen) + 1
        if not seen:
            raise EOFError
        del before
    client.setblocking(False)
    return seen[: seen.index(b"\r\n\r\n") + 4]


@contextmanager
def running_front(folder: Path) -> Iterator[Front]:
    """The front, up within the block; it stands in for the one of the gateway room."""
    names = folder / "lab.front"
    with bind(FREE) as proxies, socket.socket(socket.AF_UNIX) as namespaces:
        namespaces.bind(str(names))
        namespaces.listen()
        front = Front(address_of(proxies), names, Authority(folder))
        loop = asyncio.new_event_loop()
        serving = threading.Thread(target=loop.run_until_complete, args=(_serve(front, proxies, namespaces),))
        serving.start()
        try:
            yield front
        finally:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            serving.join()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


async def _serve(front: Front, proxies: socket.socket, namespaces: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    proxies.setblocking(False)
    try:
        async with asyncio.TaskGroup() as serving:
            serving.create_task(serve_namespaces(namespaces, front.take))
            while True:
                serving.create_task(front.proxy(*await loop.sock_accept(proxies)))
    except asyncio.CancelledError:
        return
