"""Faults of event streams, event by event."""

from __future__ import annotations

import json

import pytest

from tests.dialects.forms import BERN, CALLS, FORMS, STREAMS, TEXT, ZURICH, Form, events
from tests.faults.tries import act_of, always, model_try
from wirefault.dialects.base import ModelReply
from wirefault.dialects.bedrock import exception_in
from wirefault.dialects.http import ReplyInPieces, value_of, write_event
from wirefault.dialects.json_values import is_json
from wirefault.dialects.stream_forms import read_frame
from wirefault.faults.base import Changed, Fault, Miss, Pings
from wirefault.faults.catalogue.model.streams import (
    CorruptEvent,
    DuplicateEvent,
    EarlyEnd,
    SlowFirstToken,
    SlowTokens,
    StreamCut,
    StreamError,
    StreamHang,
    SwapEvents,
)

FORM = pytest.mark.parametrize("form", STREAMS, ids=str)


def edited(fault: Fault, originals: list[bytes], form: Form):
    """The gateway's output: the steps, and the editor after them."""
    act = act_of(fault, model_try(form, chance=always(0.5)))
    assert act.events is not None
    editor, steps = act.events(), []
    for event in originals:
        steps += editor.event(event)
        if editor.ending != "keep":
            return steps, editor
    return [*steps, *editor.end()], editor


def reply_of(steps, form) -> ModelReply:
    dialect = form.model_dialect
    return dialect.read_reply(dialect.collect(step for step in steps if isinstance(step, bytes)))


@FORM
@pytest.mark.parametrize("ending", ["close", "reset"])
def test_stream_is_cut_after_n_events(form, ending):
    originals = events(TEXT, form)
    steps, editor = edited(StreamCut(after=4, ending=ending), originals, form)
    assert steps == originals[:4] and editor.ending == ending and editor.why_not is None
    assert editor.evidence == {"at": "events", "events": 4, "bytes": len(b"".join(originals[:4]))}


@FORM
def test_stream_is_cut_inside_tool_call_arguments(form):
    steps, editor = edited(StreamCut(at="arguments"), events(CALLS, form), form)
    if form.dialect in ("gemini", "ollama"):  # whose calls come whole: the event itself breaks off
        assert value_of(steps[-1]) is None and ZURICH.arguments[:8].encode() in steps[-1]
        return
    arguments = reply_of(steps, form).calls[0].arguments
    assert editor.ending == "close" and ZURICH.arguments.startswith(arguments) and not is_json(arguments)
    assert arguments


@FORM
def test_stream_is_cut_between_tool_calls(form):
    steps, _ = edited(StreamCut(at="between_calls"), events(CALLS, form), form)
    assert [call.values() for call in reply_of(steps, form).calls] == [ZURICH.values()]


@pytest.mark.parametrize("at", ["arguments", "between_calls"])
def test_calls_in_one_event_are_cut_inside(at):
    calls = [
        {"index": n, "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for n, call in enumerate([ZURICH, BERN])
    ]
    originals = [write_event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})]
    steps, editor = edited(StreamCut(at=at), originals, STREAMS[0])
    (call,) = reply_of(steps, STREAMS[0]).calls
    assert (call.arguments == ZURICH.arguments) == (at == "between_calls") and editor.ending == "close"


@FORM
def test_stream_is_cut_before_finish(form):
    steps, _ = edited(StreamCut(at="finish"), events(CALLS, form), form)
    result = reply_of(steps, form)
    assert result.calls == CALLS.calls and result.finish == ""


@FORM
def test_stream_shorter_than_cut_is_unchanged(form):
    for fault in (StreamCut(after=99), StreamCut(at="between_calls"), EarlyEnd(at="arguments")):
        steps, editor = edited(fault, events(TEXT, form), form)
        assert steps == events(TEXT, form) and editor.why_not == "nothing_to_change"


@FORM
def test_stream_hangs(form):
    steps, editor = edited(StreamHang(after=2), events(TEXT, form), form)
    assert steps == events(TEXT, form)[:2] and editor.ending == "hang"


def test_too_many_pings_are_refused():
    with pytest.raises(ValueError, match="more than 10000 pings: raise ping_every"):
        SlowFirstToken(ms=600_000, ping_every=0.01)


@FORM
def test_stall_has_pings_of_dialect(form):
    act = StreamHang(ping_every=0.5).act(model_try(form))
    first = SlowFirstToken(ms=1600, ping_every=0.5)
    if form.dialect in ("ollama", "bedrock"):
        assert act == first.act(model_try(form)) == Miss("not_in_dialect")
        return
    ping = b'event: ping\ndata: {"type": "ping"}\n\n' if form.dialect == "anthropic" else b": keep-alive\n\n"
    assert act.pings == Pings(0.5, ping)
    steps, editor = edited(first, events(TEXT, form), form)
    waits = [step for step in steps if isinstance(step, float)]
    assert waits == pytest.approx([0.5, 0.5, 0.5, 0.1]) and steps.count(ping) == editor.evidence["pings"] == 3


ERRORS = {  # as the providers' references have them
    "openai_chat": {"error": {"type": "server_error", "code": "overloaded"}},
    "openai_responses": {"type": "error", "code": "overloaded", "sequence_number": 3},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "gemini": {"error": {"code": 503, "status": "UNAVAILABLE"}},
    "ollama": {"error": "server busy, please try again.  maximum pending requests exceeded"},
    "bedrock": {},
}


@FORM
def test_stream_ends_in_error_event(form):
    originals = events(TEXT, form)
    steps, editor = edited(StreamError(), originals, form)
    assert steps[:-1] == originals[:3] and editor.ending == "keep"
    error = value_of(steps[-1])
    assert has(error, ERRORS[form.dialect]) and json.loads(editor.evidence["error"]) == error
    with pytest.raises(ValueError):
        reply_of(steps, form)
    if form.dialect == "bedrock":
        assert exception_in(steps[-1]) == "serviceUnavailableException"
    assert steps[-1].startswith(b"event: error") == (form.dialect in ("anthropic", "openai_responses"))


def has(value, part) -> bool:
    """Whether the JSON has at least these fields."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(has(value.get(key), inner) for key, inner in part.items())
    return value == part


@FORM
@pytest.mark.parametrize("at", ["arguments", "between_calls", "finish"])
def test_error_event_follows_whole_events(form, at):
    originals = events(CALLS, form)
    steps, editor = edited(StreamError(at=at), originals, form)
    assert editor.why_not is None and editor.evidence["at"] == at
    assert all(isinstance(value_of(step), dict) for step in steps)


@FORM
@pytest.mark.parametrize("terminator", [False, True])
def test_stream_ends_early_without_error(form, terminator):
    steps, editor = edited(EarlyEnd(terminator=terminator), events(TEXT, form), form)
    result = reply_of(steps, form)
    assert (result.text, result.finish, editor.ending) == (TEXT.text, "", "keep")
    kinds, originals = (set(map(form.model_dialect.kind_of, each)) for each in (steps, events(TEXT, form)))
    assert ("end" in kinds) == (terminator and "end" in originals) and "finish" not in kinds


@FORM
def test_only_first_token_is_late(form):
    steps, editor = edited(SlowFirstToken(ms=1500), events(TEXT, form), form)
    waits = [at for at, step in enumerate(steps) if isinstance(step, float)]
    assert [steps[at] for at in waits] == [1.5] and form.model_dialect.kind_of(steps[waits[0] + 1]) == "text"
    assert [step for step in steps if isinstance(step, bytes)] == events(TEXT, form)
    assert editor.evidence["delay_ms"] == 1500


def test_whole_reply_is_delayed():
    form = FORMS[0]
    done = act_of(SlowFirstToken(ms=100), model_try(form)).reply(form.reply(TEXT))
    assert isinstance(done, Changed) and isinstance(done.reply, ReplyInPieces)
    assert done.reply.wait == 0.1 and done.reply.pieces == (form.reply(TEXT).body,)
    assert done.reply.ending == "keep"


@FORM
def test_every_token_is_late(form):
    originals = events(TEXT, form)
    steps, editor = edited(SlowTokens(ms=100, jitter_ms=40), originals, form)
    tokens = sum(form.model_dialect.kind_of(event) == "text" for event in originals)
    assert [step for step in steps if isinstance(step, float)] == [0.12] * tokens
    assert editor.evidence == {"delay_ms": 120 * tokens, "events": tokens}


@FORM
def test_event_is_duplicated(form):
    originals = events(CALLS, form)
    steps, editor = edited(DuplicateEvent(), originals, form)
    at = next(at for at, event in enumerate(originals) if form.model_dialect.arguments_in(event))
    assert editor.why_not is None and steps == [*originals[:at], originals[at] * 2, *originals[at + 1 :]]


@FORM
@pytest.mark.parametrize("kind", ["cut", "words", "bytes", "shape"])
def test_only_one_event_is_damaged(form, kind):
    originals = events(TEXT, form)
    steps, editor = edited(CorruptEvent(kind=kind), originals, form)
    (at,) = (at for at, (old, new) in enumerate(zip(originals, steps, strict=True)) if old != new)
    assert not isinstance(value_of(steps[at]), dict)
    if form.dialect == "bedrock":  # the frame itself is right: its checksums agree
        assert read_frame(steps[at]) is not None
    else:
        assert steps[at].endswith(originals[at][-1:])
    assert json.dumps(editor.evidence) and editor.evidence["event"] == at + 1


@FORM
def test_event_is_swapped_with_next(form):
    originals = events(TEXT, form)
    steps, editor = edited(SwapEvents(nth=2), originals, form)
    texts = [at for at, event in enumerate(originals) if form.model_dialect.kind_of(event) == "text"]
    at = texts[1]
    assert steps == [*originals[:at], originals[at + 1], originals[at], *originals[at + 2 :]]
    assert editor.why_not is None and editor.evidence["event"] == at + 1


@FORM
def test_last_event_is_not_swapped(form):
    (first, *_) = [event for event in events(TEXT, form) if form.model_dialect.kind_of(event) == "text"]
    steps, editor = edited(SwapEvents(), [first], form)
    assert steps == [first] and editor.why_not == "nothing_to_change"
