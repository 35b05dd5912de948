"""An exchange says whether its upstream failed by itself, with no fault of the gateway's on it."""

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
        with suppress(requests.RequestException):  # what the client makes of a broken reply
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
def test_an_upstream_that_fails_by_itself(tmp_path: Path, reply: bytes, link: str, unavailable: bool) -> None:
    assert exchange_with(tmp_path, reply, link).unavailable is unavailable


def test_what_is_no_reply_is_the_upstream_s_failure_also_if_the_client_leaves_first(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\nhello")
        connection.recv(1)  # the end of what the client sends: it has seen what came, and left

    with Upstream(serve) as upstream, gateway(tmp_path, search=upstream.address) as lab:
        lab.begin()
        with suppress(requests.RequestException):
            requests.get(lab.url("search"), headers=lab.identity(), timeout=PATIENCE_S)
        assert lab.exchange().unavailable


@pytest.mark.parametrize(
    ("faults", "unavailable"), [([DELAY], True), ([LOST], False), ([TWICE], False), ([DELAY, LOST], False)]
)
def test_a_fault_that_does_more_than_delay_may_be_the_cause(
    tmp_path: Path, faults: list[dict[str, object]], unavailable: bool
) -> None:
    reply = b"HTTP/1.1 500 No\r\n" + LENGTH
    exchange = exchange_with(tmp_path, reply * 2, "search", *faults)
    assert [met.injected for met in exchange.faults] == [True] * len(faults)
    assert exchange.unavailable is unavailable


@pytest.mark.parametrize("link", ["search", "model"])
def test_an_upstream_that_is_not_there(tmp_path: Path, link: str) -> None:
    with gateway(tmp_path) as lab:
        lab.begin()
        requests.get(lab.url(link), headers=lab.identity(), timeout=PATIENCE_S)
        assert lab.exchange().unavailable
