"""Every model and context fault over arbitrary JSON in Gemini's shape: none raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.catalogue.model.test_any_input import check_events, check_reply
from tests.faults.catalogue.model.variants import EVERY
from tests.faults.tries import a_try, keyed
from tests.support import examples
from wirefault.dialects.http import Reply, Request, write_event
from wirefault.faults.base import Act
from wirefault.faults.catalogue.context import CONTEXT_FAULTS

pytestmark = pytest.mark.slow

NAMES = """
text thought thoughtSignature functionCall function_call functionResponse name args id response result role
index finishReason parts content
"""
WORDS = st.sampled_from(["STOP", "model", "user", "function", "Report", "{}", "é", "\ud800"])
SHAPES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=6)
    ),
    max_leaves=8,
)
CALL = st.fixed_dictionaries({"name": WORDS | SHAPES, "args": SHAPES}, optional={"id": SHAPES})
PART = SHAPES | st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS | SHAPES,
        "functionCall": CALL,
        "functionResponse": SHAPES,
        "thought": st.booleans(),
    },
)
CONTENT = SHAPES | st.fixed_dictionaries(
    {"parts": st.lists(PART, max_size=3) | SHAPES}, optional={"role": WORDS}
)
CANDIDATE = SHAPES | st.fixed_dictionaries(
    {"content": CONTENT}, optional={"finishReason": WORDS, "index": SHAPES}
)
REPLY = st.fixed_dictionaries(
    {"candidates": st.lists(CANDIDATE, max_size=2) | SHAPES},
    optional={"usageMetadata": SHAPES, "error": SHAPES},
)
TOOL = SHAPES | st.fixed_dictionaries(
    {
        "functionDeclarations": st.lists(
            st.fixed_dictionaries({"name": WORDS, "parameters": SHAPES}), max_size=2
        )
    }
)
ASKED = st.fixed_dictionaries(
    {"contents": st.lists(CONTENT, max_size=4) | SHAPES},
    optional={"tools": st.lists(TOOL, max_size=2) | SHAPES, "systemInstruction": CONTENT},
)


def json_of(value: object) -> bytes:
    return json.dumps(value).encode()


REPLIES = st.builds(lambda body: Reply((), json_of(body)), REPLY) | st.builds(
    lambda events: Reply((("Content-Type", "text/event-stream"),), b"".join(events)),
    st.lists(REPLY.map(write_event) | st.binary(max_size=20), max_size=4),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 99), ASKED, REPLIES)
def test_arbitrary_input_never_breaks_fault(seed, content, reply):
    request = Request((), json_of(content), "POST", "/v1beta/models/m:generateContent")
    for fault in (*EVERY, *(kind() for kind in CONTEXT_FAULTS)):
        act = fault.act(a_try(dialect="gemini", request=request, chance=keyed(seed)))
        if isinstance(act, Act):
            json.dumps(act.evidence)
            assert act.request is None or act.request.json() is not None
            check_reply(act, reply)
            check_events(act, reply)
