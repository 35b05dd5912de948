"""Unfaulted lines across the gateway: every byte unchanged, each request an exchange."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.gateway.lab import Lab, dial
from tests.gateway.lines.lines_lab import Ends, answer, call, message, read, stdio_lab
from tests.upstream import read_all


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with stdio_lab(tmp_path_factory.mktemp("stdio")) as lab:
        yield lab


@pytest.fixture
def ends(lab: Lab) -> Iterator[Ends]:
    ends = Ends(lab)
    yield ends
    ends.close()


ODD = (
    b"\n",
    b"  \r\n",
    b' {"jsonrpc" : "2.0",  "id":7,"method":"ping"}\r\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
    b"no JSON at all\n",
    b"\xff\xfe{\n",
    b'[{"jsonrpc":"2.0","id":8,"method":"ping"}]\n',
    b'{"jsonrpc":"2.0","id":"7","result":{}}\n',
    b'{"jsonrpc":"2.0","id":9,"method":"a line without an end"}',
)


def test_client_bytes_arrive_unchanged_in_order(lab: Lab, ends: Ends):
    lab.begin()
    stream = b"".join(ODD)
    for at in range(0, len(stream), 7):
        ends.client.sendall(stream[at : at + 7])
    ends.end_of_client(len(stream))
    assert read_all(ends.server) == stream


def test_server_bytes_arrive_unchanged_in_order(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(7) + call("7") + call(9))
    for _ in range(3):
        read(ends.server)
    stream = b"".join(ODD) + b'\n{"id":9, "jsonrpc":"2.0","result":{}}'
    ends.server.sendall(stream)
    ends.server.shutdown(socket.SHUT_WR)
    assert read_all(ends.client) == stream


def test_request_and_its_response_are_one_exchange(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)
    exchange = lab.exchange()
    assert (exchange.link, exchange.method, exchange.status, exchange.dialect) == (
        "files",
        "POST",
        200,
        "mcp",
    )
    assert (
        exchange.forwarded
        and exchange.request_complete
        and exchange.reply_complete
        and exchange.status == 200
    )
    assert (exchange.request_bytes, exchange.reply_bytes) == (len(call(1)) - 1, len(answer(1)) - 1)
    assert (exchange.identity, exchange.episode, exchange.attempt) == ("counted", "e1", 1)


def test_responses_may_come_in_any_order(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1, a=1) + call("1", a=2))
    ends.server.sendall(answer("1") + answer(1))
    assert read(ends.client) + read(ends.client) == answer("1") + answer(1)
    assert [exchange.request_body for exchange in lab.exchanges(2)] == [
        call("1", a=2).decode().strip(),
        call(1, a=1).decode().strip(),
    ]


def test_line_over_limit_passes(lab: Lab, ends: Ends):
    lab.begin()
    long = b'{"x":"' + b"y" * (17 << 20) + b'"}\n'
    ends.client.sendall(long)
    received = 0
    while received < len(long):
        received += len(ends.server.recv(1 << 20))
    assert received == len(long)


def test_message_belongs_to_attempt_of_its_arrival(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1))
    ends.server.sendall(answer(1))
    read(ends.client)
    assert lab.settle()["settled"]
    again = {"run_id": lab.run_id, "episode": "e1", "attempt": 2, "settings_hash": lab.settings.hash}
    assert lab.control("PUT", "/lanes/0", again).status_code == 200
    ends.client.sendall(call(2))
    ends.server.sendall(answer(2))
    assert read(ends.client) == answer(2)
    assert [exchange.attempt for exchange in lab.exchanges(2)] == [1, 2]
    lab.settle(attempt=2)


def test_attempt_waits_for_response(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1))
    read(ends.server)
    assert lab.settle(0.05) == {"settled": False, "open": 1}
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)


def test_cancelled_request_is_over(lab: Lab, ends: Ends):
    lab.begin()
    cancelled = message(method="notifications/cancelled", params={"requestId": 1})
    ends.client.sendall(call(1) + cancelled)
    assert read(ends.server) + read(ends.server) == call(1) + cancelled
    by_status = {exchange.status: exchange for exchange in lab.exchanges(2)}
    assert by_status[None].client_left and by_status[202].forwarded
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1), "a late response is the client's to ignore"
    assert lab.settle()["settled"]


def test_ended_server_leaves_requests_unanswered(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1))
    read(ends.server)
    ends.server.close()
    assert ends.client.recv(1) == b""
    exchange = lab.exchange()
    assert exchange.status is None and exchange.unavailable and exchange.forwarded


def test_client_exit_closes_server_input(lab: Lab, ends: Ends):
    lab.begin()
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.client.close()
    assert ends.server.recv(1) == b""
    assert lab.exchange().client_left


WRONG = (
    (b"GET / HTTP/1.1\n", "only wirefault mcp"),
    (b'{"lab_id": "other", "token": "0123456789abcdef"}\n', "this is lab lab, not other"),
    (b'{"lab_id": "lab", "token": "short"}\n', "only wirefault mcp"),
    (b"x" * 5000, "a first line of JSON"),
)


@pytest.mark.parametrize(("first", "problem"), WRONG)
def test_unannounced_connection_is_refused(lab: Lab, first: bytes, problem: str):
    with dial(lab.address("files")) as stranger:
        stranger.sendall(first)
        assert problem in json.loads(read(stranger))["error"]
