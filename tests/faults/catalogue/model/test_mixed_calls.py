"""Parallel tool calls that a client cannot tell apart."""

from __future__ import annotations

import pytest

from tests.dialects.forms import CALLS, FORMS, STREAMS, TEXT, Form
from tests.faults.tries import changed, model_try, why_not
from wirefault.dialects.http import value_of
from wirefault.faults.base import Miss
from wirefault.faults.catalogue.model.mixed_calls import MixedCalls

FORM = pytest.mark.parametrize("form", FORMS, ids=str)
PIECES = [form for form in STREAMS if form.dialect not in ("gemini", "ollama")]
INDEX_KEYS = {
    "openai_chat": "index",
    "openai_responses": "output_index",
    "anthropic": "index",
    "bedrock": "contentBlockIndex",
}


@FORM
def test_all_calls_have_first_id(form):
    reply, evidence = changed(MixedCalls(), form.reply(CALLS), model_try(form))
    if form.dialect != "openai_responses" or not form.stream:  # whose last event has all calls
        assert [call.id for call in form.read(reply).calls] == ["c1", "c1"]
    assert b"c2" not in reply.body.replace(b"fc_c2", b"") and evidence["kind"] == "same_id"


@FORM
def test_no_call_has_id(form):
    reply, _ = changed(MixedCalls(kind="missing_id"), form.reply(CALLS), model_try(form))
    assert [call.id for call in form.read(reply).calls] == ["", ""]
    assert [call.values() for call in form.read(reply).calls] == [call.values() for call in CALLS.calls]


def indexes(form: Form, body: bytes) -> list[object]:
    """The index in each event about a call."""
    key = INDEX_KEYS[form.dialect]
    present: list[object] = []
    for event in form.reply(TEXT).with_body(body).events():
        value = value_of(event)
        if not isinstance(value, dict) or value.get("type") == "response.completed":
            continue
        deltas = value["choices"][0]["delta"].get("tool_calls", []) if value.get("choices") else [value]
        present += [delta[key] for delta in deltas if key in delta]
    return present


@pytest.mark.parametrize("form", PIECES, ids=str)
def test_all_calls_have_first_index(form):
    before = form.reply(CALLS)
    reply, _ = changed(MixedCalls(kind="same_index"), before, model_try(form))
    old, new = indexes(form, before.body), indexes(form, reply.body)
    assert len(new) == len(old) and set(new) == {old[0]} and set(old) == {0, 1}


@pytest.mark.parametrize("form", PIECES, ids=str)
def test_no_call_has_index(form):
    reply, _ = changed(MixedCalls(kind="missing_index"), form.reply(CALLS), model_try(form))
    assert indexes(form, reply.body) == []


@pytest.mark.parametrize("form", PIECES, ids=str)
def test_call_chunks_are_interleaved(form):
    before = form.reply(CALLS)
    reply, _ = changed(MixedCalls(kind="interleaved"), before, model_try(form))
    old, new = indexes(form, before.body), indexes(form, reply.body)
    assert new[:4] == [0, 1, 0, 1] and sorted(old) == sorted(new) and old != new
    assert form.read(reply).calls == CALLS.calls  # a client that follows the index gets them right


@pytest.mark.parametrize("kind", ["same_index", "missing_index", "interleaved"])
@FORM
def test_calls_without_index_are_not_mixed(form, kind):
    fault, tried = MixedCalls(kind=kind), model_try(form)
    if form.dialect == "gemini" or (form.dialect == "ollama" and kind == "interleaved"):
        assert fault.act(tried) == Miss("not_in_dialect")
    elif not form.stream:
        assert why_not(fault, form.reply(CALLS), tried) == "not_a_stream"
    else:
        assert why_not(fault, form.reply(TEXT), tried) == "nothing_to_change"


def test_index_of_ollama_is_inside_function():
    form = Form("ollama", True)
    line = b'{"message": {"role": "assistant", "content": "", "tool_calls": [{"function": {"index": %d}}]}}\n'
    before = form.reply(TEXT).with_body(line % 0 + line % 1)
    reply, _ = changed(MixedCalls(kind="same_index"), before, model_try(form))
    assert reply.body.count(b'"index": 0') == 2
