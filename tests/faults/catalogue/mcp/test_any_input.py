"""Every fault on a link of MCP over arbitrary requests and replies: it never raises, and can be sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.catalogue.mcp.messages import LISTED, RESULT, mcp_request, mcp_try, stream
from tests.faults.tries import keyed
from tests.support import examples
from wirefault.dialects.http import Reply, ReplyInPieces, Request, json_reply
from wirefault.faults.base import Act, Changed
from wirefault.faults.catalogue import FAULTS
from wirefault.faults.plan import act_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = {"id": JSON, "method": JSON, "params": JSON, "result": JSON, "error": JSON}
MESSAGES = st.fixed_dictionaries({"jsonrpc": st.just("2.0")}, optional=_FIELDS)
CONTENT = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": JSON | st.text()}), max_size=3)
RESULTS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.just(7)},
    optional={
        "result": st.fixed_dictionaries(
            {"content": CONTENT}, optional={"structuredContent": JSON, "tools": JSON}
        )
    },
)
REPLIES = st.one_of(
    st.binary().map(lambda body: Reply(body=body)),
    (JSON | MESSAGES | RESULTS).map(lambda value: json_reply(200, value)),
    st.lists(MESSAGES | RESULTS | JSON, max_size=4).map(lambda values: stream(*values)),
    st.sampled_from([json_reply(200, RESULT), json_reply(200, LISTED), stream(RESULT)]),
)
REQUESTS = st.one_of(
    st.sampled_from(
        [mcp_request(), mcp_request("tools/list"), mcp_request("notifications/cancelled"), Request()]
    ),
    MESSAGES.map(lambda value: Request((), json.dumps(value).encode(), "POST", "/mcp")),
    st.binary().map(lambda body: Request((), body, "POST", "/mcp")),
)
OF_TOOLS = [fault for fault in FAULTS if fault.where != "model"]


@pytest.mark.parametrize("kind", OF_TOOLS, ids=lambda kind: kind.name)
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 99), request_=REQUESTS, reply=REPLIES, earlier=REPLIES, lines=st.booleans())
def test_arbitrary_input_never_breaks_fault(kind, seed, request_, reply, earlier, lines):
    tried = mcp_try(request_, lines=lines, chance=keyed(seed), earlier=[earlier])
    made = act_of(kind(), tried)
    if not isinstance(made, Act):
        return
    done = made.reply(reply) if made.reply else made.answer
    if isinstance(done, Changed):
        json.dumps(done.evidence)
        done = done.reply
    if isinstance(done, ReplyInPieces):
        assert all(isinstance(step, (bytes, float)) for step in done.pieces)
    if made.events:
        editor = made.events()
        for event in (b": x\n\n", reply.body, b"data: " + reply.body + b"\n\n"):
            assert all(isinstance(step, (bytes, float)) for step in editor.event(event))
        assert all(isinstance(step, (bytes, float)) for step in editor.end())
