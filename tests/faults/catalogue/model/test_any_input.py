"""Every fault over arbitrary replies: it never raises, and its result is well-formed."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dialects.forms import CALLS, FORMS, ZURICH
from tests.faults.catalogue.http.test_any_input import BODIES, JSON
from tests.faults.catalogue.model.variants import EVERY
from tests.faults.tries import a_try, act_of, keyed, model_try
from tests.support import examples, replace
from wirefault.dialects.base import ModelReply, ToolCall
from wirefault.dialects.http import Reply, ReplyInPieces, Request, write_event
from wirefault.dialects.json_values import is_json
from wirefault.dialects.registry import DIALECTS
from wirefault.faults.base import MAX_EVIDENCE, Act, Changed, Miss
from wirefault.faults.catalogue.model import MODEL_FAULTS
from wirefault.faults.catalogue.model.content import ContentFault
from wirefault.faults.catalogue.model.provider import ContentFilter

pytestmark = pytest.mark.slow

CONTENT = [one for one in EVERY if isinstance(one, ContentFault) and one != ContentFilter(form="error")]
TYPES = st.sampled_from(["application/json", "text/event-stream", ""])
KEYS = st.sampled_from(
    [
        *("choices", "message", "delta", "tool_calls", "function", "arguments", "content", "index", "type"),
        *(
            "content_block",
            "text",
            "input",
            "usage",
            "x_groq",
            "stop_reason",
            "finish_reason",
            "partial_json",
        ),
        *("messages", "role", "tools", "parameters", "input_schema", "name", "logprobs", "citations", "id"),
        *("output", "item", "output_index", "content_index", "summary", "call_id", "response", "status"),
    ]
)
WORDS = st.sampled_from(
    [
        *("message_start", "message_delta", "content_block_start", "content_block_delta", "input_json_delta"),
        *(
            "response.created",
            "response.completed",
            "response.output_item.added",
            "response.output_item.done",
        ),
        *(
            "response.content_part.added",
            "response.output_text.delta",
            "function_call",
            "message",
            "reasoning",
        ),
        *("text", "thinking", "tool_use", "user", "Report", "{}", "\ud800"),
    ]
)
SHAPES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=8,
)
COMPLETIONS = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"message": SHAPES}), min_size=1)}
)
RESPONSES = st.fixed_dictionaries({"output": st.lists(st.dictionaries(KEYS, SHAPES)), "status": SHAPES})
MESSAGES = st.fixed_dictionaries({"content": st.lists(st.dictionaries(KEYS, SHAPES)), "usage": SHAPES})
EVENT = st.fixed_dictionaries(
    {"type": WORDS}, optional={"item": SHAPES, "response": RESPONSES, "delta": WORDS}
)
EVENTS = st.lists((SHAPES | COMPLETIONS | EVENT).map(write_event) | st.binary(max_size=30))
BODY = (
    BODIES
    | (SHAPES | COMPLETIONS | MESSAGES | RESPONSES).map(lambda value: json.dumps(value).encode())
    | EVENTS.map(b"".join)
)
REPLIES = st.builds(lambda kind, body: Reply((("Content-Type", kind),), body), TYPES, BODY)
ASKED = BODY.map(lambda body: Request((), body, "POST", "/"))
CALL = st.builds(
    lambda name, values: ToolCall(name, json.dumps(values), "x"),
    st.sampled_from(["get_weather", "Report"]),
    st.dictionaries(st.text(max_size=5), JSON, max_size=4),
)
SAID = st.builds(
    lambda words, calls: ModelReply(
        words, tuple(replace(c, id=f"x{n}") for n, c in enumerate(calls)), "stop"
    ),
    st.text(),
    st.lists(CALL, max_size=3),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 99), ASKED, REPLIES, st.sampled_from(sorted(DIALECTS)))
def test_arbitrary_input_never_breaks_fault(seed, request, reply, dialect):
    for fault in EVERY:
        act = fault.act(a_try(dialect=dialect, request=request, chance=keyed(seed)))
        if isinstance(act, Act):
            json.dumps(act.evidence)
            check_reply(act, reply)
            check_events(act, reply)


def check_reply(act: Act, reply: Reply) -> None:
    done = act.reply(reply) if act.reply else Miss("not_a_stream")
    assert isinstance(done, Changed | Miss)
    if isinstance(done, Changed):
        json.dumps(done.evidence)
        assert isinstance(done.reply, ReplyInPieces) or done.reply.stream_form or done.reply.json()


def check_events(act: Act, reply: Reply) -> None:
    if act.events is not None:
        editor = act.events()
        steps = [step for event in reply.events() for step in editor.event(event)]
        assert all(isinstance(step, bytes | float) for step in [*steps, *editor.end()])
        json.dumps(editor.evidence)


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 99), SAID)
def test_changed_reply_is_valid_for_api(form, seed, scripted):
    for fault in CONTENT:
        done = act_of(fault, model_try(form, ZURICH, chance=keyed(seed))).reply(form.reply(scripted))
        if isinstance(done, Changed):
            result = form.read(done.reply)
            assert len({call.id for call in result.calls}) == len(result.calls)
            assert fault.name in ("malformed_tool_call", "token_limit") or all(
                call.values() is not None for call in result.calls
            )
            original, changed = done.evidence["original"], done.evidence["changed"]
            # the evidence has the start of long texts, which may be equal
            assert changed != original or len(str(changed)) >= MAX_EVIDENCE


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_deep_nesting_is_unreadable_not_error(form):
    deep = b"[" * 100_000
    body = b"data: " + deep + b"\n\n" if form.stream else deep
    act = MODEL_FAULTS[-1]().act(model_try(form))
    assert act.reply(form.reply(CALLS).with_body(body)) == Miss("unreadable")
    assert not is_json(deep.decode()) and form.model_dialect.read_request(form.request()).user
