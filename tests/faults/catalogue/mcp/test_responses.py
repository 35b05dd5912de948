"""Faults of the response to a call: errors, delays, duplicates, wrong ids, interruptions."""

from __future__ import annotations

import pytest

from tests.faults.catalogue.mcp.messages import (
    PROGRESS,
    RESULT,
    STATELESS,
    act,
    done_by,
    made_of,
    mcp_request,
    mcp_try,
    messages_in,
    messages_of,
    stream,
)
from tests.support import replace
from wirefault.dialects.http import Reply, ReplyInPieces, write_event
from wirefault.faults.base import Act, Miss

SESSION = {"Mcp-Session-Id": "s1"}


def answered(made: Act) -> Reply:
    assert isinstance(made.answer, Reply)
    return made.answer


def test_tool_error_is_result():
    result = answered(act("tool_error", text="no")).json()["result"]
    assert result == {"content": [{"type": "text", "text": "no"}], "isError": True}
    stateless = mcp_request(name="add", _meta=STATELESS)
    assert answered(act("tool_error", mcp_try(stateless))).json()["result"]["resultType"] == "complete"


@pytest.mark.parametrize("name", ["tool_error", "rpc_error", "lose_reply", "wrong_value", "truncate"])
@pytest.mark.parametrize(
    "target", ["/messages/?session_id=5f", "/mcp?sessionId=5f", "/message/5f", "/messages"]
)
def test_response_on_session_stream_is_out_of_reach(name, target):
    call = replace(mcp_request(), target=target)
    assert done_by(name, mcp_try(call)) == Miss("answered_on_stream")
    for later in (("Accept", "application/json, text/event-stream"), ("Mcp-Session-Id", "5f")):
        assert done_by(name, mcp_try(replace(call, headers=(later,)))) != Miss("answered_on_stream")


@pytest.mark.parametrize(("name", "more"), [("delay", {}), ("lose_request", {}), ("unavailable", {})])
def test_request_to_session_stream_is_faulted(name, more):
    assert act(name, mcp_try(replace(mcp_request(), target="/messages/?sessionId=5f")), **more)


def test_protocol_error_has_request_id():
    answer = answered(act("rpc_error", code=-32020, message="mismatch", data={"x": 1}, status=400))
    assert answer.status == 400 and answer.json()["id"] == 7
    assert answer.json()["error"] == {"code": -32020, "message": "mismatch", "data": {"x": 1}}


def test_executed_call_can_get_error():
    made = act("tool_error", executed=True)
    assert made.answer is None
    reply = made_of(made)
    assert isinstance(reply, Reply) and reply.json()["result"]["isError"]


@pytest.mark.parametrize(("status", "id"), [(404, 7), (400, None)])
def test_unknown_session_error(status, id):
    answer = answered(act("unknown_session", mcp_try(mcp_request(headers=SESSION)), status=status))
    assert answer.status == status and answer.json().get("id") == id


@pytest.mark.parametrize("name", ["unknown_session", "slow_progress", "split_line", "garbage_line"])
def test_inapplicable_message_is_unchanged(name):
    assert isinstance(done_by(name), Miss)


def test_late_response_waits_in_event_stream():
    assert messages_in(made_of(act("late_response", ms=1500))) == [1.5, RESULT]


def test_delayed_event_keeps_position():
    events = act("late_response", ms=1500).events
    assert events is not None
    editor = events()
    assert editor.event(write_event(PROGRESS)) == (write_event(PROGRESS),)
    assert messages_of(editor.event(write_event(RESULT))) == [1.5, RESULT]


def test_duplicate_is_two_events():
    assert messages_in(made_of(act("duplicate_response"))) == [RESULT, RESULT]
    both = messages_in(made_of(act("duplicate_response"), stream(PROGRESS, RESULT)))
    assert both == [PROGRESS, RESULT, RESULT]


@pytest.mark.parametrize(("kind", "id"), [("other", 1_000_007), ("text", "7"), ("none", None)])
def test_response_has_wrong_id(kind, id):
    reply = made_of(act("wrong_id", kind=kind))
    assert isinstance(reply, Reply) and reply.json() == {**RESULT, "id": id}


def test_text_id_is_unchanged():
    assert made_of(act("wrong_id", kind="text"), {**RESULT, "id": "7"}) == Miss("nothing_to_change")


@pytest.mark.parametrize("ending", ["keep", "close", "reset"])
def test_stream_ends_before_response(ending):
    ended = made_of(act("ended_stream", ending=ending), stream(PROGRESS, RESULT))
    assert isinstance(ended, ReplyInPieces) and ended.ending == ending
    assert messages_in(ended) == [PROGRESS]


def test_stream_ends_after_event_id():
    ended = made_of(act("ended_stream", at="after_id"))
    assert isinstance(ended, ReplyInPieces) and ended.ending == "keep"
    assert ended.pieces == (b"id: wirefault-1\ndata: \n\n",)


QUESTION = {"resultType": "input_required", "inputRequests": {"a": {}}, "requestState": "s"}
TASK = {"task": {"taskId": "t1", "status": "working"}}


@pytest.mark.parametrize("result", [QUESTION, TASK])
def test_interim_result_is_lost(result):
    lost = made_of(act("lost_interim_result", ending="close"), {**RESULT, "result": result})
    assert isinstance(lost, ReplyInPieces) and lost.ending == "close" and messages_in(lost) == []


@pytest.mark.parametrize(("kind", "result"), [("any", RESULT["result"]), ("task", QUESTION)])
def test_other_results_pass(kind, result):
    reply = {**RESULT, "result": result}
    assert made_of(act("lost_interim_result", kind=kind), reply) == Miss("nothing_to_change")


def test_only_retried_original_is_sent_twice():
    answers = {"inputResponses": {"a": {}}, "requestState": "s"}
    assert act("retried_original", mcp_try(mcp_request(name="add", **answers))).copies == 2
    assert done_by("retried_original") == Miss("nothing_to_change")


def test_server_death_forgets_sessions():
    def at(ordinal: int, method: str = "tools/call") -> object:
        tried = mcp_try(mcp_request(method, SESSION), ordinal=ordinal)
        return done_by("server_death", tried, down=1, forgets=1, executed=False)

    closed = ReplyInPieces(ending="close")
    assert [at(n).answer for n in (1, 2)] == [closed, closed]  # type: ignore[attr-defined]
    assert at(3).answer.status == 404  # type: ignore[attr-defined]
    assert at(3, "initialize") is None and at(4) is None


def test_server_dies_after_execution():
    assert made_of(act("server_death")) == ReplyInPieces(ending="close")


def test_stdio_reply_is_same_message():
    assert made_of(act("late_response", mcp_try(lines=True))) == made_of(act("late_response"))


@pytest.mark.parametrize(("kind", "pieces"), [("pause", 3), ("newline", 3), ("unfinished", 1)])
def test_line_is_cut_in_two(kind, pieces):
    cut = made_of(act("split_line", mcp_try(lines=True), kind=kind))
    assert isinstance(cut, ReplyInPieces) and len(cut.pieces) == pieces and cut.ending == "keep"


def test_invalid_line_comes_first():
    garbage = made_of(act("garbage_line", mcp_try(lines=True)))
    assert isinstance(garbage, ReplyInPieces) and garbage.pieces[0] == b"INFO: connected to the database\n"
