"""The faults of HTTP on lines: each is carried out where a line has a counterpart of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.lab import Lab
from tests.gateway.lines.lines_lab import Ends, answer, call, faults, message, read, stdio_lab
from tests.gateway.scripted import DOES
from tests.support import PATIENCE_S
from wirefault.dialects.http import RawReply, json_reply, whole
from wirefault.faults.base import Act, Changed
from wirefault.history.events import Exchange
from wirefault.judging.oracle.wire_world import proven_duplicates

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
    """Arms a fault that does what the function says, on the first call alone."""

    def armed(does: Any) -> None:
        monkeypatch.setitem(DOES, "stdio", does)
        entry = {"fault": "scripted", "with": {"does": "stdio"}, "when": {"nth": 1}}
        lab.begin(faults=faults(entry))

    return armed


def ask(ends: Ends, *lines: bytes) -> None:
    """Two calls, the first of which is struck; the server answers both."""
    ends.client.sendall(call(1) + call(2))
    for line in lines or (call(1), call(2)):
        assert read(ends.server) == line
        ends.server.sendall(answer(json.loads(line)["id"]))


def struck(lab: Lab, count: int = 2) -> Exchange:
    return next(exchange for exchange in lab.exchanges(count) if exchange.faults)


def test_an_answer_is_given_in_the_servers_place(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(answer=json_reply(200, OWN)))
    ask(ends, call(2))
    assert read(ends.client) == LINE + b"\n"
    assert read(ends.client) == answer(2)
    assert struck(lab).faults[0].injected and not struck(lab).forwarded


def test_a_delayed_request_holds_no_other_up(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(delay=PATIENCE_S))  # no machine is so slow that it would be over
    ends.client.sendall(call(1) + call(2))
    assert read(ends.server) == call(2)
    ends.server.sendall(answer(2))
    assert read(ends.client) == answer(2)


def test_what_is_delayed_reaches_the_server_before_its_input_ends(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(delay=0.05))
    ends.client.sendall(call(1))
    ends.end_of_client(len(call(1)))
    assert read(ends.server) == call(1)
    assert ends.server.recv(1) == b""
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)
    assert struck(lab, 1).faults[0].delay_ms > 40


def test_a_changed_request_is_one_line(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(request=tried.request.with_json({**tried.request.json(), "extra": "a\nb"})))
    ends.client.sendall(call(1))
    assert json.loads(read(ends.server))["extra"] == "a\nb"
    ends.server.sendall(answer(1))
    assert read(ends.client) == answer(1)


def test_copies_are_asked_for_one_after_the_other(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(copies=2))
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1, "first"))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1, "second"))
    assert read(ends.client) == answer(1, "second")
    assert struck(lab, 1).faults[0].injected


def test_a_changed_result_is_what_the_client_gets(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(reply.with_json(OWN), {"was": len(reply.body)})))
    ask(ends)
    assert read(ends.client) == LINE + b"\n"
    assert read(ends.client) == answer(2)
    fault = struck(lab).faults[0]
    assert fault.injected and fault.content and fault.evidence == {"was": len(answer(1)) - 1}


def test_a_lost_reply_never_comes(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(RawReply((), "hang"))))
    ask(ends)
    assert read(ends.client) == answer(2)
    lab.settle()
    exchange = struck(lab)
    assert exchange.forwarded and exchange.status is None and exchange.faults[0].shows == {"lost": True}


def test_a_duplicate_that_comes_late_is_another_line(lab: Lab, ends: Ends, arm: Any):
    def twice(reply: Any) -> Changed:
        return Changed(RawReply((b"".join(whole(reply)), 0.05, b"".join(whole(reply))), "keep"))

    arm(lambda tried: Act(reply=twice))
    ask(ends)
    assert [read(ends.client) for _ in range(3)] == [answer(1), answer(2), answer(1)]


def test_a_line_that_comes_in_pieces_is_not_broken_by_others(lab: Lab, ends: Ends, arm: Any):
    def slow(reply: Any) -> Changed:
        head, body = whole(reply)
        return Changed(RawReply((head + body[:5], 0.05, body[5:]), "keep"))

    arm(lambda tried: Act(reply=slow))
    ask(ends)
    assert [read(ends.client) for _ in range(2)] == [answer(1), answer(2)]


def test_bytes_of_a_line_go_out_as_they_are(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(RawReply((reply.body[:9], b"\nno JSON\n"), "keep"))))
    ask(ends)
    assert read(ends.client) == answer(1)[:9] + b"\n"
    assert read(ends.client) == b"no JSON\n"
    assert read(ends.client) == answer(2)
    assert struck(lab).faults[0].injected


def test_a_line_without_an_end_takes_the_next_one_with_it(lab: Lab, ends: Ends, arm: Any):
    arm(lambda tried: Act(reply=lambda reply: Changed(RawReply((reply.body[:9],), "keep"))))
    ends.client.sendall(call(1))
    read(ends.server)
    ends.server.sendall(answer(1))
    assert ends.client.recv(9, 0x100) == answer(1)[:9]  # MSG_WAITALL
    ends.client.sendall(call(2))
    read(ends.server)
    ends.server.sendall(answer(2))
    assert read(ends.client) == answer(2)


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_reply_that_is_cut_ends_the_stream_and_kills_the_server(
    lab: Lab, ends: Ends, arm: Any, ending: Any
):
    arm(lambda tried: Act(reply=lambda reply: Changed(RawReply((whole(reply)[0] + reply.body[:9],), ending))))
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


def test_a_fault_knows_that_it_strikes_a_line(lab: Lab, ends: Ends, arm: Any):
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


def test_progress_is_lost_of_the_call_that_is_struck_alone(lab: Lab, ends: Ends):
    lab.begin(faults=faults({**LOST, "when": {"nth": 1}}))
    asked = call_with_progress(1, "a"), call_with_progress(2, "b")
    ends.client.sendall(b"".join(asked))
    assert (read(ends.server), read(ends.server)) == asked
    ends.server.sendall(progress("a", 1) + progress("b", 1) + answer(1) + answer(2))
    assert [read(ends.client) for _ in range(3)] == [progress("b", 1), answer(1), answer(2)]
    assert struck(lab).faults[0].evidence == {"lost": ["notifications/progress"]}


def test_what_a_server_sends_of_its_own_accord_can_be_lost(lab: Lab, ends: Ends):
    lab.begin(faults=faults({**LOST, "with": {}, "only": {"method": "GET"}}))
    changed = message(method="notifications/tools/list_changed")
    asked = message(id=1, method="roots/list")
    ends.server.sendall(changed + asked)
    assert read(ends.client) == asked, "a request is no notification"
    assert lab.settle()["settled"]
    exchange = struck(lab, 1)
    assert exchange.method == "GET" and exchange.faults[0].evidence["lost"] == [
        "notifications/tools/list_changed"
    ]
    ends.server.sendall(changed)
    assert read(ends.client) == changed, "no attempt is in progress, and so no fault"


FAILED = message(id=1, result={"content": [], "isError": True})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (answer(1), "result"),
        (FAILED, "error"),
        (message(id=1, error={"code": -32603, "message": "no"}), "error"),
    ],
    ids=["result", "failed", "rpc"],
)
def test_how_the_server_itself_answered_a_call_is_recorded(
    lab: Lab, ends: Ends, arm: Any, line: bytes, said: str
):
    arm(lambda tried: Act(reply=lambda reply: Changed(reply.with_json(OWN))))
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(line)
    assert read(ends.client) == LINE + b"\n"
    assert struck(lab, 1).tool_answer == said


@pytest.mark.parametrize(("first", "axis"), [(FAILED, "not_applicable"), (answer(1), "duplicated")])
def test_a_lost_error_and_a_successful_retry_are_no_duplicate(
    lab: Lab, ends: Ends, arm: Any, first: bytes, axis: str
):
    arm(lambda tried: Act(reply=lambda reply: Changed(RawReply((), "hang"))))
    for id, line in ((1, first), (2, answer(2))):
        ends.client.sendall(call(id))
        assert read(ends.server) == call(id)
        ends.server.sendall(line)
    assert read(ends.client) == answer(2)
    lab.settle()
    writes = [replace(exchange, write=True) for exchange in lab.exchanges(2)]
    assert proven_duplicates(writes, ()).axis == axis
