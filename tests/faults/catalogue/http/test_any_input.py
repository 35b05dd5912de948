"""Every HTTP fault over arbitrary replies: it never raises, and its result can be sent."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.tries import a_try, keyed
from tests.support import examples
from tests.upstream import whole
from wirefault.dialects.http import Reply, ReplyInPieces, Request, json_reply
from wirefault.dialects.registry import DIALECTS
from wirefault.faults.base import Act, Changed, Fault, Miss
from wirefault.faults.catalogue.http import HTTP_FAULTS
from wirefault.faults.catalogue.http.body import Empty
from wirefault.faults.catalogue.http.content import Partial, SchemaDrift, Stale

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
BODIES = st.binary() | JSON.map(lambda value: json.dumps(value).encode())
TYPES = st.sampled_from(["application/json", "text/event-stream", "text/html; charset=x", "", "a/b"])
REPLIES = st.builds(
    lambda kind, body, status: Reply((("Content-Type", kind),), body, status),
    TYPES,
    BODIES,
    st.sampled_from([status.value for status in HTTPStatus if status >= 200]),
)
REQUESTS = st.builds(
    lambda method, target, body: Request((), body, method, target),
    st.sampled_from(["GET", "HEAD", "POST", "DELETE"]),
    st.text(),
    BODIES,
)
SPOKEN = st.sampled_from(sorted(DIALECTS))
CASES = st.tuples(st.integers(0, 99), REQUESTS, REPLIES, REPLIES, SPOKEN)
STILL_JSON: list[Fault] = [
    Partial(),
    Empty(kind="object"),
    *(SchemaDrift(kind=kind) for kind in ("rename", "drop", "retype", "wrap")),
]


def outcome(fault: Fault, seed: int, request: Request, reply: Reply, earlier: Reply, dialect) -> object:
    act = fault.act(a_try(dialect=dialect, request=request, chance=keyed(seed), earlier=[earlier]))
    if not isinstance(act, Act):
        return act
    json.dumps(act.evidence)
    return act.reply(reply) if act.reply else act.answer


@pytest.mark.parametrize("kind", HTTP_FAULTS, ids=lambda kind: kind.name)
@settings(max_examples=examples(40))
@given(case=CASES)
def test_arbitrary_input_never_breaks_fault(kind, case):
    done = outcome(kind(), *case)
    assert done == outcome(kind(), *case), "it must be fixed by its draws"
    if isinstance(done, Changed):
        json.dumps(done.evidence)
        assert done.reply != case[2]
        done = done.reply
    if isinstance(done, Reply):
        assert b"\r\n\r\n" in whole(done)[0]
    if isinstance(done, ReplyInPieces):
        assert all(isinstance(step, (bytes, float)) for step in done.pieces)


@pytest.mark.parametrize("fault", STILL_JSON, ids=str)
@given(value=JSON)
def test_changed_json_stays_json(fault, value):
    done = fault.act(a_try()).reply(json_reply(200, value))
    if isinstance(done, Miss):
        assert done.why == "nothing_to_change"
    else:
        assert json.dumps(done.reply.json(), sort_keys=True) != json.dumps(value, sort_keys=True)


@given(JSON, JSON)
def test_stale_is_earlier_reply_byte_by_byte(first, second):
    tried = a_try(earlier=[json_reply(200, first)])
    done = Stale().act(tried).reply(json_reply(200, second))
    assert isinstance(done, Miss) or done.reply == json_reply(200, first)
