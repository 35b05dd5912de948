"""Harmful clients and upstreams: no other connection is affected, memory is bounded."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.lab import Lab, ask, dial, gateway
from tests.gateway.test_process import process
from tests.support import PATIENCE_S, examples
from tests.upstream import Upstream, read_all, read_head

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GOOD = [
    GET,
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;e=1\r\nhello\r\n0\r\nT: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
]
SPICE = [b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\t", b"Content-Length: 3\r\n", b"-1"]
SPICE += [b"f" * 18, b"\xff"]
LARGE = 64 << 20


def answer_all(connection: socket.socket) -> None:
    """Send one reply per header block."""
    rest = b""
    while True:
        _, rest = read_head(connection, rest)
        connection.sendall(OK)


@pytest.fixture(scope="module", params=[0, 1e-12], ids=["quiet", "armed"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    upstream = Upstream(answer_all)
    with gateway(tmp_path_factory.mktemp("hostile"), search=upstream.address) as lab:
        lab.begin(error_prob=request.param)
        yield lab
    upstream.close()


@st.composite
def garbled(draw: st.DrawFn) -> bytes:
    """A good request with a few of its bytes dropped, doubled or replaced."""
    data = draw(st.sampled_from(GOOD)) * draw(st.integers(1, 2))
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 6))
        data = (
            data[:at] + draw(st.one_of(st.sampled_from(SPICE), st.binary(max_size=4))) + data[at + length :]
        )
    return data


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(garbled(), st.binary(max_size=200)), min_size=1, max_size=8))
def test_garbage_is_refused_without_affecting_others(lab: Lab, rubbish: list[bytes]) -> None:
    address = lab.address("search")
    with dial(address) as other:
        for data in rubbish:
            with dial(address) as client, suppress(ConnectionError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                got = read_all(client)  # the connection closes or this times out
                assert got == b"" or got.startswith(b"HTTP/1.1 ")
            other.sendall(GET)
            assert read_all(other, len(OK)) == OK


def test_cut_pipelined_request_ends_with_client(lab: Lab) -> None:
    cut = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel"
    with dial(lab.address("search")) as client:
        client.sendall(GET + cut)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).startswith(OK)


def test_dripping_header_block_times_out(tmp_path: Path) -> None:
    with gateway(tmp_path, head_timeout=0.3) as lab, dial(lab.address("search")) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        while not select.select([client], [], [], 0.005)[0]:
            client.send(b"x")
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")


def test_dripping_clients_delay_no_other(lab: Lab) -> None:
    slow = [dial(lab.address("search")) for _ in range(100)]
    for client in slow:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 30_000)
    assert ask(lab.address("search"), GET[:-2] + b"Connection: close\r\n\r\n").startswith(OK)
    for client in slow:
        client.close()


def rss_mib(pid: int) -> float:
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) / 1024


def pour(connection: socket.socket, data: bytes) -> None:
    """Send repeatedly until the socket blocks; all 64 MiB would be too much."""
    connection.settimeout(0.3)
    with suppress(TimeoutError):
        for _ in range(LARGE // len(data)):
            connection.sendall(data)
        raise AssertionError("all of it was taken in")


class Sleepy:
    """An upstream that reads header blocks up to a point and sends the given bytes, then sleeps."""

    def __init__(self, reply: bytes, poured: bytes) -> None:
        self.reply = reply
        self.poured = poured
        self.stuck, self.over = threading.Event(), threading.Event()
        self.upstream = Upstream(self.serve)

    def serve(self, connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(self.reply)
        if self.poured:
            pour(connection, self.poured)
        self.stuck.set()
        self.over.wait(PATIENCE_S)

    def close(self) -> None:
        self.over.set()
        self.upstream.close()


SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("error_prob", [0, 1e-12], ids=["quiet", "armed"])
@pytest.mark.parametrize(
    ("request_", "poured", "reply", "poured_back"),
    [
        (GET, b"", SIZED, bytes(1 << 16)),
        (GET, b"", CHUNKED, CHUNK),
        (PUT + b"Content-Length: %d\r\n\r\n" % LARGE, bytes(1 << 16), b"", b""),
        (PUT + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK, b"", b""),
        (PUT + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n0\r\n" * 5000, b"", b""),
        (GET, GET * 2000, b"", b""),
    ],
    ids=["reply", "chunked reply", "request", "chunked request", "tiny chunks", "pipeline"],
)
def test_client_that_does_not_read_costs_no_memory(
    tmp_path: Path, error_prob: float, request_: bytes, poured: bytes, reply: bytes, poured_back: bytes
) -> None:
    sleepy = Sleepy(reply, poured_back)
    with process(tmp_path, sleepy.upstream.address) as (child, lab, _):
        lab.begin(error_prob=error_prob)
        before = rss_mib(child.pid)
        with dial(lab.address("search")) as client:
            client.sendall(request_)
            if poured:
                pour(client, poured)
            assert sleepy.stuck.wait(PATIENCE_S)
            assert rss_mib(child.pid) - before < 20
    sleepy.close()
