"""Records of clients that left before the reply or only half-closed."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.scripted import GET, UPSTREAM_REPLY, sized
from tests.upstream import Upstream, read_all, requests_of
from wirefault.gateway.exchange.relay import CLIENT_LEFT
from wirefault.history.events import Exchange

pytestmark = pytest.mark.usefixtures("transport")

LEFT = {"lost": True, "left": True}  # must be seen by a caller that left in the middle of its reply
DAMAGE = b"upstream connect error"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
TEXT_EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello"}}]}\n\n'
Leaves = Callable[[socket.socket], bytes]


def leaves(client: socket.socket) -> bytes:
    client.close()
    return b""


def only_says_all(client: socket.socket) -> bytes:
    client.shutdown(socket.SHUT_WR)
    return read_all(client)


def replies_when_client_is_silent(connection: socket.socket) -> None:
    """An upstream that replies once the gateway has passed on the client's half-close."""
    for _ in requests_of(connection):
        read_all(connection)
        connection.sendall(sized(UPSTREAM_REPLY))
        return


@contextmanager
def lab_with(folder: Path, *faults: dict[str, Any]) -> Iterator[Lab]:
    upstream = Upstream(replies_when_client_is_silent)
    with upstream, gateway(folder, search=upstream.address) as lab:
        lab.begin(faults=json.dumps({"faults": list(faults)}) if faults else "")
        yield lab


def exchanged(lab: Lab, client_does: Leaves) -> tuple[Exchange, bytes]:
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        got = client_does(client)
        return lab.exchange(), got


def test_client_gone_before_reply_got_nothing(tmp_path: Path) -> None:
    with lab_with(tmp_path) as lab:
        exchange, _ = exchanged(lab, leaves)
    assert (exchange.status, exchange.reply_bytes, exchange.reply_complete) == (None, 0, False)
    assert (exchange.client_left, exchange.error, exchange.forwarded) == (True, CLIENT_LEFT, True)
    assert 0 < exchange.left_ms <= exchange.ms


def test_half_closed_client_gets_its_reply(tmp_path: Path) -> None:
    with lab_with(tmp_path) as lab:
        exchange, got = exchanged(lab, only_says_all)
    assert got.endswith(UPSTREAM_REPLY)
    assert (exchange.status, exchange.reply_complete, exchange.client_left) == (200, True, False)
    assert exchange.reply_bytes == len(got)


CHANGED_REPLIES: list[dict[str, Any]] = [
    {"fault": "schema_drift"},
    {"fault": "truncate"},
    {"fault": "slow_body", "with": {"bytes_per_second": 1000}},
    {"fault": "hang", "with": {"at": "mid_body"}},
    {"fault": "hang"},
]


@pytest.mark.parametrize("fault", CHANGED_REPLIES)
def test_fault_after_client_left_is_not_injected(tmp_path: Path, fault: dict[str, Any]) -> None:
    with lab_with(tmp_path, fault) as lab:
        exchange, _ = exchanged(lab, leaves)
    [hit] = exchange.faults
    assert (hit.injected, hit.why_not, hit.shows) == (False, "cut_short", None)
    assert (exchange.status, exchange.reply_bytes, exchange.client_left) == (None, 0, True)


def test_half_closed_client_still_gets_faulted_reply(tmp_path: Path) -> None:
    with lab_with(tmp_path, {"fault": "schema_drift"}) as lab:
        exchange, got = exchanged(lab, only_says_all)
    [hit] = exchange.faults
    assert got.endswith(b'{"n_value": 1}') and hit.injected and exchange.status == 200
    assert hit.causes == [] and hit.acted_ms is not None and hit.acted_ms <= exchange.ms


def test_client_giving_up_on_hanging_reply_got_fault(tmp_path: Path) -> None:
    def reads_the_headers_and_leaves(client: socket.socket) -> bytes:
        got = client.recv(4096)
        client.close()
        return got

    def replies(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(sized(UPSTREAM_REPLY))

    faults = json.dumps({"faults": [{"fault": "hang", "with": {"at": "after_headers"}}]})
    with Upstream(replies) as upstream, gateway(tmp_path, search=upstream.address) as lab:
        lab.begin(faults=faults)
        exchange, got = exchanged(lab, reads_the_headers_and_leaves)
    [hit] = exchange.faults
    assert (hit.injected, hit.shows, hit.causes) == (True, LEFT, ["timeout", "closed", "reset"])
    assert (exchange.status, exchange.reply_bytes, exchange.client_left) == (200, len(got), True)


def test_client_leaving_at_damaged_event_got_fault(tmp_path: Path) -> None:
    def leaves_at_what_is_no_json(client: socket.socket) -> bytes:
        got = b""
        while (piece := client.recv(4096)) and DAMAGE not in (got := got + piece):
            pass
        client.close()
        return got

    def streams_and_waits(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(STREAM_HEAD + TEXT_EVENT)
            read_all(connection)  # the rest would come once the client has left

    fault = {"fault": "corrupt_event", "links": "model", "with": {"kind": "words"}}
    with Upstream(streams_and_waits) as upstream, gateway(tmp_path, model=upstream.address) as lab:
        lab.begin(faults=json.dumps({"faults": [fault]}))
        with dial(lab.address("model")) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            leaves_at_what_is_no_json(client)
            exchange = lab.exchange()
    [hit] = exchange.faults
    assert (hit.injected, hit.shows, exchange.client_left) == (True, LEFT, True)
