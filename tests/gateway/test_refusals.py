"""Invalid requests get a reply and a close; other connections are unaffected."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import Lab, ask, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import read_all
from wirefault.core.sockets import Address

pytestmark = pytest.mark.usefixtures("transport")

HOST = b"Host: x\r\n"
BAD = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00",
    "words": b"hello there\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: x\n\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0",
    "negative length": b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "chunked not last": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "bad chunk size": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "chunk too long": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("error_prob", [0, 1])
@pytest.mark.parametrize("request_", BAD.values(), ids=BAD.keys())
def test_malformed_requests_get_400(lab: Lab, request_: bytes, error_prob: float) -> None:
    lab.begin(error_prob=error_prob)
    reply = ask(lab.address("search"), request_)
    assert reply.startswith(b"HTTP/1.1 400 ") and b'"code": "bad_request"' in reply
    record = lab.exchange()
    assert (record.status, record.request_complete, record.faults) == (400, False, []) and record.error


def test_malformed_request_does_not_affect_others(lab: Lab) -> None:
    with requests.Session() as session:
        assert session.get(lab.url("search", "/echo"), timeout=PATIENCE_S).status_code == 200
        for request in BAD.values():
            ask(lab.address("search"), request)
        assert session.get(lab.url("search", "/echo"), timeout=PATIENCE_S).status_code == 200


def test_good_request_before_bad_one_is_answered(lab: Lab) -> None:
    reply = ask(lab.address("search"), b"GET /size/3 HTTP/1.1\r\nHost: x\r\n\r\n" + BAD["words"])
    assert reply.startswith(b"HTTP/1.1 200 ") and b"xxxHTTP/1.1 400 " in reply


@pytest.mark.parametrize("ended", [True, False])
def test_oversized_header_block_gets_431(lab: Lab, ended: bool) -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"x" * 66_000 + (b"\r\n\r\n" if ended else b"")
    assert ask(lab.address("search"), head).startswith(b"HTTP/1.1 431 ")


def test_large_header_block_passes(lab: Lab) -> None:
    reply = requests.get(lab.url("search", "/echo"), headers={"X-Large": "x" * 60_000}, timeout=PATIENCE_S)
    assert len(reply.json()["headers"]["X-Large"]) == 60_000


def test_refusal_reaches_sending_client(lab: Lab) -> None:
    with dial(lab.address("search")) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 3_000_000)
        assert read_all(client).startswith(b"HTTP/1.1 431 ")


def test_slow_header_block_ends_connection(tmp_path: Path) -> None:
    with gateway(tmp_path, head_timeout=0.1) as lab:
        assert ask(lab.address("search"), b"GET / HTTP/1.1\r\nHost:").startswith(b"HTTP/1.1 408 ")


def test_header_block_may_come_byte_by_byte(lab: Lab) -> None:
    with dial(lab.address("search")) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"\r\nGET /size/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            client.send(bytes([byte]))
        assert read_all(client).endswith(b"\r\n\r\nxxx")


def test_idle_connection_stays_open(tmp_path: Path, flask_upstream: Address) -> None:
    with (
        gateway(tmp_path, head_timeout=0.05, search=flask_upstream) as lab,
        dial(lab.address("search")) as idle,
    ):
        assert ask(lab.address("search"), b"GET").startswith(b"HTTP/1.1 408 ")  # its timeout has expired, too
        idle.sendall(b"GET /size/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(idle).endswith(b"xxx")
