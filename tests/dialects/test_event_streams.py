"""Event streams: split into events, read in each provider's form, and the kind of each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects.forms import CALLS, STREAMS, TEXT, events
from wirefault.dialects.anthropic import ANTHROPIC
from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import split_events, value_of, write_event
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.registry import MODEL_DIALECTS


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_events_split_at_blank_lines_with_any_line_end(line_end):
    body = "event: a\ndata: 1\n\n: ping\n\ndata: [2,\ndata: 3]\n\n".replace("\n", line_end).encode()
    events = list(split_events(body))
    assert b"".join(events) == body
    assert [value_of(event) for event in events] == [1, None, [2, 3]]


@pytest.mark.parametrize("name", ["groq_calls", "openai_text", "anthropic_calls"])
def test_provider_streams_are_read(name):
    sample = Path(__file__).with_name("samples") / f"{name}.txt"
    dialect = MODEL_DIALECTS["anthropic" if name.startswith("anthropic") else "openai_chat"]
    body = dialect.collect(split_events(sample.read_bytes()))
    model_reply = dialect.read_reply(body)
    assert dialect.read_reply(dialect.collect(dialect.spread(body))) == model_reply
    if name.endswith("text"):
        assert model_reply == ModelReply("Hello there.", (), "stop") and body["usage"]["total_tokens"] == 12
    else:
        assert [call.values() for call in model_reply.calls] == [{"city": "Zurich"}, {"city": "Bern"}]


@pytest.mark.parametrize("form", STREAMS, ids=str)
def test_each_event_has_its_kind(form):
    kinds = [form.model_dialect.kind_of(event) for event in events(CALLS, form)]
    assert kinds.count("call") == 2 and "text" not in kinds
    assert kinds.count("finish") == 1 and kinds[-1] in ("finish", "end")
    assert "text" in map(form.model_dialect.kind_of, events(TEXT, form))


def test_reasoning_and_stream_errors_have_kinds():
    chunk = {"choices": [{"index": 0, "delta": {"reasoning": "Two."}}]}
    assert OPENAI_CHAT.kind_of(write_event(chunk)) == "text" and OPENAI_CHAT.kind_of(b": ping\n\n") == "other"
    assert ANTHROPIC.kind_of(write_event({"type": "error", "error": {}}, "error")) == "other"
