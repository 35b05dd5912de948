"""Faults of HTTP on lines, as far as a line has a counterpart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.lab import Lab
from tests.gateway.lines.lines_lab import Ends, answer, call, faults, message, read, stdio_lab
from tests.gateway.scripted import DOES
from tests.support import PATIENCE_S, replace
from wirefault.dialects.http import ReplyInPieces, json_reply
from wirefault.faults.base import Act, Changed
from wirefault.history.events import Exchange
from wirefault.judging.trace import episode_trace
from wirefault.judging.writes import write_counts

OWN = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
LINE = json.dumps(OWN).encode()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with stdio_lab(tmp_path_factory.mktemp("stdio")) as lab:
        yield lab


@pytest.fixture
def ends(lab: Lab) -> Iterator[Ends]:
    ends = Ends(lab)
    yield ends
    ends.close()


@pytest.fixture
def arm(lab: Lab, scripted_faults: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Arm a fault with that act, on the first call alone."""

    def armed(does: Any) -> None:
        monkeypatch.setitem(DOES, "stdio", does)
        entry = {"fault": "scripted", "with": {"does": "stdio"}, "when": {"nth": 1}}
        lab.begin(faults=faults(entry))

    return armed


def ask(ends: Ends, *lines: bytes) -> None:
    """Make two calls, the first of them faulted; the server answers both."""
    ends.client.sendall(call(1) + call(2))
    for line in lines or (call(1), call(2)):
        assert read(ends.server) == line
        ends.server.sendall(answer(json.loads(line)["id"]))


def faulted(lab: Lab, count: int = 2) -> Exchange:
    return next(exchange for exchange in lab.exchanges(count) if exchange.faults)


def test_fault_answers_instead_of_server(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(answer=json_reply(200, OWN)))
    ask(ends, call(2))
    assert read(ends.client) == LINE + b"\n"
    assert read(ends.client) == answer(2)
    assert faulted(lab).faults[0].injected and not faulted(lab).forwarded


def test_delayed_request_does_not_block_others(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(delay=PATIENCE_S))  # never over during the test
    ends.client.sendall(call(1) + call(2))
    assert read(ends.server) == call(2)
    ends.server.sendall(answer(2))
    assert read(ends.client) == answer(2)


def test_delayed_line_reaches_server_before_eof(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(delay=0.05))
    ends.client.sendall(call(1))
    ends.end_of_client(len(call(1)))
    assert read(ends.server) == call(1)
    assert ends.server.recv(1) == b""
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)
    assert faulted(lab, 1).faults[0].delay_ms > 40


def test_changed_request_is_one_line(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(request=tried.request.with_json({**tried.request.json(), "extra": "a\nb"})))
    ends.client.sendall(call(1))
    assert json.loads(read(ends.server))["extra"] == "a\nb"
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)


def test_copies_are_sent_sequentially(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(copies=2))
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1, "first"))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1, "second"))
    assert read(ends.client) == answer(1, "second")
    assert faulted(lab, 1).faults[0].injected


def test_client_receives_changed_result(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(reply.with_json(OWN), {"was": len(reply.body)})))
    ask(ends)
    assert read(ends.client) == LINE + b"\n"
    assert read(ends.client) == answer(2)
    fault = faulted(lab).faults[0]
    assert fault.injected and fault.content and fault.evidence == {"was": len(answer(1)) - 1}


def test_lost_reply_never_comes(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(ReplyInPieces(ending="hang"))))
    ask(ends)
    assert read(ends.client) == answer(2)
    lab.settle()
    exchange = faulted(lab)
    assert exchange.forwarded and exchange.status is None and exchange.faults[0].shows == {"lost": True}


def test_late_duplicate_is_another_line(lab: Lab, ends: Ends, arm: Any):
    def twice(reply: Any) -> Changed:
        line = reply.body + b"\n"
        return Changed(ReplyInPieces(None, (line, 0.05, line), "keep"))

    arm(lambda tried: Act(reply=twice))
    ask(ends)
    assert [read(ends.client) for _ in range(3)] == [answer(1), answer(2), answer(1)]


def test_line_in_pieces_is_not_interleaved(lab: Lab, ends: Ends, arm: Any):
    def slow(reply: Any) -> Changed:
        body = reply.body
        return Changed(ReplyInPieces(reply, (body[:5], 0.05, body[5:]), "keep", len(body)))

    arm(lambda tried: Act(reply=slow))
    ask(ends)
    assert [read(ends.client) for _ in range(2)] == [answer(1), answer(2)]


def test_raw_line_bytes_are_unchanged(lab: Lab, ends: Ends, arm: Any):
    arm(
        lambda tried: Act(
            reply=lambda reply: Changed(ReplyInPieces(None, (reply.body[:9], b"\nno JSON\n"), "keep"))
        )
    )
    ask(ends)
    assert read(ends.client) == answer(1)[:9] + b"\n"
    assert read(ends.client) == b"no JSON\n"
    assert read(ends.client) == answer(2)
    assert faulted(lab).faults[0].injected
    assert faulted(lab).reply_bytes == 9 + len(b"\nno JSON"), "bytes that the client got, and no framing"


def test_unterminated_line_joins_next_one(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(ReplyInPieces(None, (reply.body[:9],), "keep"))))
    ends.client.sendall(call(1))
    read(ends.server)
    ends.server.sendall(answer(1))
    assert ends.client.recv(9, 0x100) == answer(1)[:9]  # MSG_WAITALL
    ends.client.sendall(call(2, tool="multiply"))
    read(ends.server)
    ends.server.sendall(answer(2))
    assert read(ends.client) == answer(2)


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_cut_reply_ends_stream_and_kills_server(lab: Lab, ends: Ends, arm: Any, ending: Any):
    arm(
        lambda tried: Act(
            reply=lambda reply: Changed(ReplyInPieces(reply, (reply.body[:9],), ending, len(reply.body)))
        )
    )
    ends.client.sendall(call(1))
    read(ends.server)
    ends.server.sendall(answer(1))
    assert ends.client.recv(9, 0x100) == answer(1)[:9]
    with pytest.raises(ConnectionResetError):
        ends.server.recv(1)
    if ending == "close":
        assert ends.client.recv(1) == b""
    else:
        with pytest.raises(ConnectionResetError):
            ends.client.recv(1)


def test_fault_sees_line_transport(lab: Lab, ends: Ends, arm: Any):
    seen: list[Any] = []
    arm(lambda tried: seen.append(tried))
    ask(ends)
    read(ends.client)
    tried = seen[0]
    assert tried.lines and tried.request.method == "POST" and tried.request.target == "/"
    assert tried.request.body + b"\n" == call(1)


def progress(token: Any, step: int) -> bytes:
    return message(method="notifications/progress", params={"progressToken": token, "progress": step})


def call_with_progress(id: Any, token: Any) -> bytes:
    params = {"name": "add", "arguments": {}, "_meta": {"progressToken": token}}
    return message(id=id, method="tools/call", params=params)


LOST = {"fault": "lost_notification", "with": {"method": "notifications/progress"}}


def test_only_faulted_call_loses_progress(lab: Lab, ends: Ends):
    lab.begin(faults=faults({**LOST, "when": {"nth": 1}}))
    lines_sent = call_with_progress(1, "a"), call_with_progress(2, "b")
    ends.client.sendall(b"".join(lines_sent))
    assert (read(ends.server), read(ends.server)) == lines_sent
    ends.server.sendall(progress("a", 1) + progress("b", 1) + answer(1) + answer(2))
    assert [read(ends.client) for _ in range(3)] == [progress("b", 1), answer(1), answer(2)]
    assert faulted(lab).faults[0].evidence == {"lost": ["notifications/progress"]}


def test_pushed_line_can_be_lost(lab: Lab, ends: Ends):
    lab.begin(faults=faults({**LOST, "with": {}, "only": {"method": "GET"}}))
    changed = message(method="notifications/tools/list_changed")
    lines_sent = message(id=1, method="roots/list")
    ends.server.sendall(changed + lines_sent)
    assert read(ends.client) == lines_sent, "a request is not a notification"
    assert lab.settle()["settled"]
    exchange = faulted(lab, 1)
    assert exchange.method == "GET" and exchange.faults[0].evidence["lost"] == [
        "notifications/tools/list_changed"
    ]
    ends.server.sendall(changed)
    assert read(ends.client) == changed, "no attempt is in progress, and so no fault"


FAILED = message(id=1, result={"content": [], "isError": True})


@pytest.mark.parametrize(
    ("line", "server_line"),
    [
        (answer(1), "result"),
        (FAILED, "error"),
        (message(id=1, error={"code": -32603, "message": "no"}), "error"),
    ],
    ids=["result", "failed", "rpc"],
)
def test_server_answer_to_call_is_recorded(lab: Lab, ends: Ends, arm: Any, line: bytes, server_line: str):
    arm(lambda tried: Act(reply=lambda reply: Changed(reply.with_json(OWN))))
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(line)
    assert read(ends.client) == LINE + b"\n"
    assert faulted(lab, 1).tool_answer == server_line


@pytest.mark.parametrize(("first", "executed"), [(FAILED, 1), (answer(1), 2)])
def test_lost_error_and_retry_are_one_execution(lab: Lab, ends: Ends, arm: Any, first: bytes, executed: int):
    arm(lambda tried: Act(reply=lambda reply: Changed(ReplyInPieces(ending="hang"))))
    for id, line in ((1, first), (2, answer(2))):
        ends.client.sendall(call(id))
        assert read(ends.server) == call(id)
        ends.server.sendall(line)
    assert read(ends.client) == answer(2)
    lab.settle()
    writes = [replace(exchange, write=True) for exchange in lab.exchanges(2)]
    assert [count.executed for count in write_counts(episode_trace(writes))] == [executed]


def test_line_has_no_header(lab: Lab, ends: Ends) -> None:
    lab.begin(faults=faults({"fault": "rate_limit", "with": {"retry_after": 2}}))
    ends.client.sendall(call(1))
    assert json.loads(read(ends.client))["error"]["message"] == "Too many requests"
    exchange = faulted(lab, 1)
    assert (exchange.status, exchange.retry_after) == (429, None)
    assert exchange.faulted_reply is not None and exchange.faulted_reply.observed_headers == {}
