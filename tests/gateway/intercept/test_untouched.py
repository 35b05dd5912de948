"""Intercepted traffic passes untouched, from TLS to TLS; no file has the authority's key."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_all, read_head, requests_of
from wirefault.gateway.intercept import certificate_authority as authority_module
from wirefault.gateway.intercept.certificate_authority import Authority
from wirefault.wiring.links import Link, Links

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PARALLEL = 50


@contextmanager
def before_tls(
    folder: Path, monkeypatch: pytest.MonkeyPatch, handle: Callable[[socket.socket], None], **settings: Any
) -> Iterator[Lab]:
    """An intercepting gateway before an upstream that speaks TLS, as intercepted hosts do."""
    of_upstream = Authority(lambda: datetime.now(UTC))
    bundle = folder / "upstream.pem"
    bundle.write_text(of_upstream.pem, encoding="ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))

    def serve(connection: socket.socket) -> None:
        with of_upstream.context("127.0.0.1").wrap_socket(connection, server_side=True) as secure:
            handle(secure)

    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(serve))
        link = Link("shop", f"https://{upstream.address}", found=True)
        lab = stack.enter_context(gateway(folder, links=Links([link]), intercepts=True))
        lab.begin(**settings)
        yield lab


def answer_all(connection: socket.socket) -> None:
    """Reply with each request's SHA-256."""
    for request in requests_of(connection):
        digest = hashlib.sha256(request.body).hexdigest().encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(digest) + digest)


@pytest.mark.slow
def test_fifty_parallel_uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with before_tls(tmp_path, monkeypatch, answer_all) as lab:

        def talk(number: int) -> bool:
            bodies = [bytes([number]) * size for size in (0, 1, 70_000, 400_000)]
            with requests.Session() as session:
                answers = [
                    session.put(lab.url("shop", f"/{number}"), data=body, timeout=PATIENCE_S).text
                    for body in bodies
                ]
            return answers == [hashlib.sha256(body).hexdigest() for body in bodies]

        with ThreadPoolExecutor(PARALLEL) as pool:
            assert all(pool.map(talk, range(PARALLEL)))
        assert [exchange.error for exchange in lab.exchanges(4 * PARALLEL)] == [None] * 4 * PARALLEL


@pytest.mark.slow
def test_long_event_stream_arrives_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One event for each second of an hour; each is sent after the client acknowledged the previous one."""

    protocol = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for second in range(3600):
            connection.sendall(b"data: %04d\n\n" % second)
            protocol.acquire(timeout=PATIENCE_S)

    with before_tls(tmp_path, monkeypatch, serve) as lab, dial(lab.address("shop")) as client:
        client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        _, event = read_head(client)
        for second in range(3600):
            assert event + read_all(client, 12 - len(event)) == b"data: %04d\n\n" % second
            event = b""
            protocol.release()
        assert read_all(client) == b""
    assert lab.exchange().reply_complete


def test_websocket_frames_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = base64.b64encode(hashlib.sha1(b"a2V5258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    switch += b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(switch + b"\x81\x05hello")
        while frame := connection.recv(100):
            connection.sendall(frame[::-1])

    with before_tls(tmp_path, monkeypatch, serve) as lab, dial(lab.address("shop")) as client:
        client.sendall(
            b"GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert read_all(client, len(switch) + 7) == switch + b"\x81\x05hello"
        for number in range(100):
            frame = bytes([0x82, 0x83, *b"mask", number, 1, 2])
            client.sendall(frame)
            assert read_all(client, len(frame)) == frame[::-1]


def test_http_1_0_ends_with_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nto the end")
        with suppress(ssl.SSLError, OSError):
            connection.unwrap()  # type: ignore[attr-defined]

    with before_tls(tmp_path, monkeypatch, serve) as lab, dial(lab.address("shop")) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert read_all(client) == b"HTTP/1.0 200 OK\r\n\r\nto the end"
        assert client.has_close_notify  # type: ignore[attr-defined]


def test_body_follows_100_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert read_all(connection, 2) == b"hi"
        connection.sendall(OK)

    with before_tls(tmp_path, monkeypatch, serve) as lab, dial(lab.address("shop")) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert read_head(client) == (b"HTTP/1.1 100 Continue\r\n\r\n", b"")
        client.sendall(b"hi")
        assert read_all(client, len(OK)) == OK


def test_no_key_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    made = authority_module.ec.generate_private_key

    def note(curve: Any) -> Any:
        keys.append(made(curve))
        return keys[-1]

    def serve(connection: socket.socket) -> None:
        with suppress(ValueError):  # HTTP/2 is relayed unchanged
            answer_all(connection)

    monkeypatch.setattr(authority_module.ec, "generate_private_key", note)
    with before_tls(tmp_path, monkeypatch, serve, bodies="on") as lab:
        with dial(lab.address("shop")) as client:
            client.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
            read_head(client)
        with pytest.raises(ssl.SSLError), dial(lab.topology.gateways["shop"]) as plain:
            ssl.create_default_context().wrap_socket(plain, server_hostname="a.example")
        with dial(lab.address("shop")) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            read_all(client)
        reply = json.dumps(lab.control("GET", "/authority").json())
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"BEGIN CERTIFICATE" in written and b'"PUT"' in written  # the searched place is right
    assert len(keys) >= 4
    for number in (key.private_numbers().private_value for key in keys):
        raw = number.to_bytes(32, "big")
        for form in (raw, raw.hex().encode(), base64.b64encode(raw), str(number).encode()):
            assert form not in written and form not in reply.encode()
    assert b"PRIVATE KEY" not in written
