"""Which requests count as the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirefault.cassettes.canonical_request import canonical_request, request_key
from wirefault.dialects.http import Request


def key(body: Any, target: str = "/chat/completions", method: str = "POST") -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_key(canonical_request(Request((("Authorization", "x"),), data, method, target)))


def chat(*ids: str, answered: str = "") -> dict[str, Any]:
    """A conversation in the dialect of OpenAI with these tool calls, one of which is answered."""
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in ids]
    answer = {"role": "tool", "tool_call_id": answered or ids[0], "content": "1"}
    return {"messages": [{"role": "assistant", "tool_calls": calls}, answer]}


def anthropic(id_: str, argument: str = "a") -> dict[str, Any]:
    use = {"type": "tool_use", "id": id_, "name": "f", "input": {"id": argument}}
    return {"messages": [{"content": [use]}, {"content": [{"type": "tool_result", "tool_use_id": id_}]}]}


def responses(id_: str, previous: str = "resp_1") -> dict[str, Any]:
    call = {"type": "function_call", "call_id": id_, "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": id_, "output": "1"}
    return {"previous_response_id": previous, "input": [call, output]}


def gemini(id_: str, argument: str = "a") -> dict[str, Any]:
    call = {"functionCall": {"id": id_, "name": "f", "args": {"id": argument}}}
    return {"contents": [{"parts": [call]}, {"parts": [{"functionResponse": {"id": id_, "name": "f"}}]}]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({"model": "m", "seed": 1}, {"model": "m", "seed": 2}),
        ({"model": "m", "seed": 1}, {"model": "m"}),
        (chat("call_x", "call_y"), chat("call_2", "call_1")),
        (anthropic("toolu_x"), anthropic("toolu_y")),
        (responses("call_x", "resp_x"), responses("call_y", "resp_y")),
        (gemini("x"), gemini("y")),
    ],
)
def test_ids_seed_and_order_of_keys_make_no_difference(first: Any, second: Any) -> None:
    assert key(first) == key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"model": "m"}, {"model": "n"}),
        ({"stream": True}, {"stream": False}),
        (chat("x", "y", answered="x"), chat("x", "y", answered="y")),
        (anthropic("x", "event 1"), anthropic("x", "event 2")),
        (gemini("x", "event 1"), gemini("x", "event 2")),
        (b"a", b"b"),
    ],
)
def test_what_is_asked_makes_one(first: Any, second: Any) -> None:
    assert key(first) != key(second)


def test_path_and_method_count_and_the_query_does_not() -> None:
    assert key({}, "/a?key=secret") == key({}, "/a")
    assert len({key({}, "/a"), key({}, "/b"), key({}, "/a", "PUT")}) == 3


def test_what_is_nested_too_deep_is_compared_by_its_bytes() -> None:
    deep = [b"[" * depth + b"]" * depth for depth in (500, 501, 100_000)]
    assert len({key(body) for body in deep}) == 3


def test_a_canonical_request_stays_the_same_through_json() -> None:
    body = json.dumps({"a": 1.0, "b": "\ud800", "c": float("nan")}).encode()
    canonical = canonical_request(Request((), body, "POST", "/"))
    assert request_key(json.loads(json.dumps(canonical))) == request_key(canonical)
