"""The record shows an upstream's own failure, without a fault of the gateway."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, read_head
from wirefault.history.events import Exchange

pytestmark = pytest.mark.usefixtures("transport")

LENGTH = b"Content-Length: 2\r\n\r\nno"
DELAY = {"fault": "delay", "with": {"ms": 5}}
LOST = {"fault": "lose_reply"}
TWICE = {"fault": "duplicate_request"}


def exchange_with(folder: Path, reply: bytes, link: str = "search", *faults: dict[str, object]) -> Exchange:
    """The record of one request to an upstream that gives that reply and closes."""
    entries = [{"links": link, **fault} for fault in faults]
    with (
        Upstream(lambda connection: (read_head(connection), connection.sendall(reply))) as upstream,
        gateway(folder, **{link: upstream.address}) as lab,
    ):
        lab.begin(faults=json.dumps({"faults": entries}) if entries else "")
        with suppress(requests.RequestException):  # the client's error on a broken reply
            requests.get(lab.url(link), headers=lab.identity(), timeout=PATIENCE_S)
        return lab.exchange()


@pytest.mark.parametrize(
    ("reply", "link", "unavailable"),
    [
        (b"HTTP/1.1 200 OK\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 500 No\r\n" + LENGTH, "search", True),
        (b"HTTP/1.1 503 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 404 No\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 429 No\r\n" + LENGTH, "search", False),
        (b"HTTP/1.1 400 No\r\n" + LENGTH, "model", False),
        (b"HTTP/1.1 401 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 429 No\r\n" + LENGTH, "model", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "search", True),
        (b"", "search", True),
        (b"SSH-2.0-OpenSSH\r\n\r\nhello", "search", True),
    ],
)
def test_upstream_failure_is_recorded(tmp_path: Path, reply: bytes, link: str, unavailable: bool) -> None:
    assert exchange_with(tmp_path, reply, link).unavailable is unavailable


def test_invalid_reply_is_upstream_failure_even_if_client_leaves(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\nhello")
        connection.recv(1)  # EOF: the client has seen the reply and left

    with Upstream(serve) as upstream, gateway(tmp_path, search=upstream.address) as lab:
        lab.begin()
        with suppress(requests.RequestException):
            requests.get(lab.url("search"), headers=lab.identity(), timeout=PATIENCE_S)
        assert lab.exchange().unavailable


@pytest.mark.parametrize(
    ("faults", "unavailable"), [([DELAY], True), ([LOST], False), ([TWICE], False), ([DELAY, LOST], False)]
)
def test_fault_beyond_delay_may_be_cause(
    tmp_path: Path, faults: list[dict[str, object]], unavailable: bool
) -> None:
    reply = b"HTTP/1.1 500 No\r\n" + LENGTH
    exchange = exchange_with(tmp_path, reply * 2, "search", *faults)
    assert [hit.injected for hit in exchange.faults] == [True] * len(faults)
    assert exchange.unavailable is unavailable


@pytest.mark.parametrize("link", ["search", "model"])
def test_unreachable_upstream(tmp_path: Path, link: str) -> None:
    with gateway(tmp_path) as lab:
        lab.begin()
        requests.get(lab.url(link), headers=lab.identity(), timeout=PATIENCE_S)
        assert lab.exchange().unavailable
