"""How bytes flow: as they come, with bounded memory, and the end of either side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import Lab, ask, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_all, read_head
from wirefault.core.sockets import Address

pytestmark = pytest.mark.usefixtures("transport")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 64 << 20
# Linux's own buffers: a receive buffer of 32 MiB and two send buffers of 4
HELD_BY_SYSTEM = 40 << 20
HELD_BY_GATEWAY = 4 << 20


@contextmanager
def behind(folder: Path, handle: Callable[[socket.socket], None], **settings: float) -> Iterator[Lab]:
    """A gateway with that upstream on the search link, and an attempt on its lane."""
    upstream = Upstream(handle)
    try:
        with gateway(folder, search=upstream.address) as lab:
            lab.begin(**settings)
            yield lab
    finally:
        upstream.close()


def test_event_stream_arrives_event_by_event(tmp_path: Path) -> None:
    go_on = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for number in range(3):
            connection.sendall(b"data: %d\n\n" % number)
            assert go_on.acquire(timeout=PATIENCE_S)

    with (
        behind(tmp_path, serve) as lab,
        requests.get(lab.url("search"), stream=True, timeout=PATIENCE_S) as reply,
    ):
        lines = reply.iter_lines(chunk_size=1)
        for number in range(3):  # the upstream sends the next only after this one has come
            assert next(line for line in lines if line) == b"data: %d" % number
            go_on.release()


def _send_until_stuck(connection: socket.socket, stuck: threading.Event) -> None:
    data, offset = memoryview(bytes(LARGE)), 0
    connection.settimeout(0.3)
    while offset < LARGE:
        try:
            offset += connection.send(data[offset:])
        except TimeoutError:
            assert offset < HELD_BY_SYSTEM + HELD_BY_GATEWAY, "too much for a reader that is asleep"
            stuck.set()
            connection.settimeout(PATIENCE_S)


def test_slow_reader_slows_down_upstream(tmp_path: Path) -> None:
    stuck = threading.Event()

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
        _send_until_stuck(connection, stuck)

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        client.sendall(GET)
        assert stuck.wait(PATIENCE_S)
        _, rest = read_head(client)
        assert len(rest) + len(read_all(client, LARGE - len(rest))) == LARGE


def test_slow_upstream_slows_down_client(tmp_path: Path) -> None:
    stuck, got = threading.Event(), []

    def serve(connection: socket.socket) -> None:
        _, rest = read_head(connection)
        assert stuck.wait(PATIENCE_S)
        got.append(len(rest) + len(read_all(connection, LARGE - len(rest))))
        connection.sendall(OK)

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        client.sendall(b"PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % LARGE)
        _send_until_stuck(client, stuck)
        assert read_all(client, len(OK)) == OK
        assert got == [LARGE]
        record = lab.exchange()
        assert record.request_complete and record.forwarded and record.request_bytes > LARGE


@pytest.mark.parametrize("error_prob", [0, 1e-9])
def test_expect_100_continue(tmp_path: Path, error_prob: float) -> None:
    heard = []

    def serve(connection: socket.socket) -> None:
        _, rest = read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        heard.append(rest + read_all(connection, 2 - len(rest)))
        connection.sendall(OK)

    with behind(tmp_path, serve, error_prob=error_prob) as lab, dial(lab.address("search")) as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert read_head(client) == (b"HTTP/1.1 100 Continue\r\n\r\n", b"")
        client.sendall(b"hi")
        assert read_all(client, len(OK)) == OK  # exactly one 100, from the gateway or the upstream
        assert heard == [b"hi"]


@pytest.mark.parametrize("error_prob", [0, 1e-9])
def test_http_1_0_gets_no_100_continue(tmp_path: Path, error_prob: float) -> None:
    def serve(connection: socket.socket) -> None:
        _, rest = read_head(connection)
        read_all(connection, 2 - len(rest))
        connection.sendall(OK)

    with behind(tmp_path, serve, error_prob=error_prob) as lab:
        request = b"POST / HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi"
        assert ask(lab.address("search"), request) == OK


def test_final_reply_instead_of_100_closes(tmp_path: Path) -> None:
    reply = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    with behind(tmp_path, lambda connection: (read_head(connection), connection.sendall(reply))) as lab:
        request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        assert ask(lab.address("search"), request) == reply


def test_upgraded_connection_relays_any_bytes(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n"
        )
        while data := connection.recv(100):
            connection.sendall(data)

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        client.sendall(b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
        head, rest = read_head(client)
        assert head.startswith(b"HTTP/1.1 101") and rest + read_all(client, 5 - len(rest)) == b"early"
        client.sendall(b"\x00GET \r\n\r\n")
        assert read_all(client, 9) == b"\x00GET \r\n\r\n"


def test_one_upstream_connection_for_each_client(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        while True:
            read_head(connection)
            connection.sendall(OK)

    upstream = Upstream(serve)
    with gateway(tmp_path, search=upstream.address) as lab, dial(lab.address("search")) as client:
        for _ in range(3):
            client.sendall(GET)
            assert read_all(client, len(OK)) == OK
        assert upstream.accepted == 1
    upstream.close()


def test_upstream_closed_between_requests_is_reopened(tmp_path: Path) -> None:
    closed = threading.Semaphore(0)

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)
        closed.release()

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        for number in range(1, 4):
            client.sendall(GET)
            assert read_all(client, len(OK)) == OK
            assert closed.acquire(timeout=PATIENCE_S)
            assert lab.exchanges(number)[-1].reply_complete


def test_possibly_delivered_request_is_not_resent(tmp_path: Path) -> None:
    upstream = Upstream(read_head)  # reads, and closes without an answer
    with gateway(tmp_path, search=upstream.address) as lab:
        lab.begin()
        assert ask(lab.address("search"), GET) == b""
        record = lab.exchange()
        assert (record.status, record.forwarded, record.reply_complete) == (None, True, False)
        assert record.error == "the upstream closed before its reply"
        assert upstream.accepted == 1
    upstream.close()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            "the upstream closed in the middle of its reply",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the upstream closed in the middle of its reply"),
        (b"SSH-2.0-OpenSSH\r\n\r\nhello", "bad reply: the upstream's status line is not HTTP/1"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "bad reply: not the size of a chunk",
        ),
    ],
)
def test_broken_reply_passes_unchanged(tmp_path: Path, reply: bytes, error: str) -> None:
    with behind(tmp_path, lambda connection: (read_head(connection), connection.sendall(reply))) as lab:
        assert ask(lab.address("search"), GET) == reply
        record = lab.exchange()
        assert (record.error, record.reply_complete, record.reply_bytes) == (error, False, len(reply))


@pytest.mark.parametrize(("link", "method"), [("weather", "GET"), ("weather", "POST"), ("model", "POST")])
def test_upstream_down_is_502(tmp_path: Path, link: str, method: str) -> None:
    with gateway(tmp_path) as lab:
        lab.begin()
        reply = requests.request(
            method, lab.url(link), data=b"x" * 10, headers=lab.identity(link), timeout=PATIENCE_S
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "bad_gateway")
        assert "cannot be reached" in reply.json()["error"]["message"]
        record = lab.exchange()
        assert (record.status, record.forwarded, record.reply_complete) == (502, False, True)
        assert record.error and "cannot be reached" in record.error


def test_half_closed_client_gets_reply(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        assert connection.recv(1000) and connection.recv(1) == b""  # it sees the end, too
        connection.sendall(OK)

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        client.sendall(GET)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == OK


def test_whole_request_is_delivered_after_client_left(lab: Lab) -> None:
    lab.begin()
    with dial(lab.address("search")) as client:
        client.sendall(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
    assert lab.settle()["settled"]
    assert lab.exchange().forwarded


def test_upstream_closes_when_client_leaves(tmp_path: Path) -> None:
    arrived, closed = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        _, rest = read_head(connection)
        rest += read_all(connection, 3 - len(rest))
        arrived.set()
        assert rest + read_all(connection) == b"par"
        closed.set()

    with behind(tmp_path, serve) as lab:
        with dial(lab.address("search")) as client:
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\npar")
            assert arrived.wait(PATIENCE_S)
        assert closed.wait(PATIENCE_S)
        record = lab.exchange()
        assert (record.request_complete, record.forwarded, record.status) == (False, False, None)
        assert record.error == "the client left before its request was complete"


def test_reset_client_is_recorded_and_upstream_closed(tmp_path: Path) -> None:
    started, closed = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        started.set()
        assert connection.recv(10) == b""
        closed.set()

    with behind(tmp_path, serve) as lab:
        with dial(lab.address("search")) as client:
            client.sendall(GET)
            assert started.wait(PATIENCE_S)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        assert closed.wait(PATIENCE_S)
        record = lab.exchange()
        assert (record.forwarded, record.status) == (True, None)
        assert record.error == "the client left before its reply was complete"


def test_early_reply_does_not_cut_request_short(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        _, rest = read_head(connection)
        connection.sendall(OK)
        assert rest + read_all(connection, 4 - len(rest)) == b"body"
        read_head(connection)
        connection.sendall(OK)

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n")
        assert read_all(client, len(OK)) == OK
        client.sendall(b"body" + GET)
        assert read_all(client, len(OK)) == OK
        assert [record.request_complete for record in lab.exchanges(2)] == [True, True]


def test_small_replies_are_not_delayed(tmp_path: Path, flask_upstream: Address) -> None:
    """Two small writes of an upstream would meet Nagle and delayed ACK without TCP_NODELAY (+40 ms)."""

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            read_head(connection)
            connection.sendall(OK[:20])
            connection.sendall(OK[20:])

    with behind(tmp_path, serve) as lab, dial(lab.address("search")) as client:
        for _ in range(20):
            client.sendall(GET)
            assert read_all(client, len(OK)) == OK
        fastest = min(record.ms for record in lab.exchanges(20))
        assert fastest < 30
