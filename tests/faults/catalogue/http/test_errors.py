"""status and the named errors: their form in each dialect."""

from __future__ import annotations

import pytest

from tests.faults.tries import a_try, act_of, model_request
from wirefault.core.errors import InputError
from wirefault.dialects.http import Reply
from wirefault.faults.catalogue.http.errors import (
    NAMED_ERRORS,
    InternalServerError,
    NotFoundError,
    Quota,
    RateLimit,
    Status,
)

OF_TOOL = {
    "rate_limit": 429, "quota": 429, "auth_error": 401, "forbidden": 403, "not_found": 404,
    "server_error": 500, "bad_gateway": 502, "unavailable": 503, "overloaded": 503,
}  # fmt: skip


def answer(fault, **tried) -> Reply:
    reply = act_of(fault, a_try(**tried)).answer
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("kind", NAMED_ERRORS, ids=lambda kind: kind.name)
def test_named_error_is_plain_json_at_tool(kind):
    reply = answer(kind())
    assert reply.status == OF_TOOL[kind.name]
    assert reply.json()["error"]["code"] == kind.name


def test_message_names_requested_model():
    reply = answer(NotFoundError(), dialect="openai_chat", request=model_request(model="gpt {0} \ud800"))
    assert "`gpt {0} \ud800`" in reply.json()["error"]["message"]


def test_retry_after_is_in_seconds_and_optional():
    assert answer(RateLimit(retry_after=0.25)).header("retry-after") == "0.25"
    assert answer(RateLimit(retry_after=None)).header("retry-after") == ""
    assert answer(Quota()).header("retry-after") == ""


def test_executed_error_replaces_reply():
    act = act_of(InternalServerError(executed=True))
    assert act.answer is None and act.reply is not None
    done = act.reply(Reply(status=201))
    assert done.evidence == {"status": 500, "kind": "server_error", "upstream_status": 201}


def test_status_without_body_has_error_of_link():
    assert answer(Status(status=418)).json()["error"]["code"] == "i'm_a_teapot"
    assert answer(Status(status=599), dialect="anthropic").json()["error"]["type"] == "status_599"


@pytest.mark.parametrize(
    ("body", "expected", "content_type"),
    [("hello", b"hello", "text/plain; charset=utf-8"), ({"a": 1}, b'{"a": 1}', "application/json")],
)
def test_status_sends_text_unchanged_and_other_values_as_json(body, expected, content_type):
    reply = answer(Status(status=200, body=body, headers={"X-A": "b"}))
    assert (reply.body, reply.header("content-type"), reply.header("x-a")) == (expected, content_type, "b")


def test_custom_headers_replace_usual_ones():
    reply = answer(Status(body="<p>", headers={"content-type": "text/html"}))
    assert reply.header("content-type") == "text/html"


@pytest.mark.parametrize(
    "parameters",
    [
        {"headers": {"A": "b\r\nc"}},
        {"headers": {"A b": "c"}},
        {"headers": {"Content-Length": "3"}},
        {"status": 204, "body": "x"},
        {"status": 199},
    ],
)
def test_unsendable_value_is_refused(parameters):
    with pytest.raises(InputError):
        Status(**parameters)
