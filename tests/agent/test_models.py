"""The model client at a server that records: what each request carries, how tries are counted and bounded."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from agent.loop import Agent
from agent.models import build_model, open_client
from agent.tools import TOOLS
from tests.agent.support import (
    WEATHER,
    Answer,
    Flown,
    Wire,
    context_in,
    drip,
    http,
    lab_of,
    reset,
    settings,
    silence,
)
from wirefault.core.identity import Identity
from wirefault.history.events import Event, ModelCall, ToolCalled
from wirefault.wiring.topology import default_topology

pytestmark = pytest.mark.slow  # its clients wait for their time limits

KEY = "gsk_no_real_key_0123456789"
REPORT = ("Report", {"status": "done", "answer": "It is 8."})
SOON = http(503, {}, Retry_After="0.01")


def says(*calls: tuple[str, Any], text: str = "") -> bytes:
    """A chat completion."""
    tool_calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": tool_calls or None}
    return http(
        200,
        {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
        Content_Type="application/json",
    )


@contextmanager
def _agent(server: Wire, **given: Any) -> Iterator[Agent]:
    frozen, topology = settings(**given), lab_of(server.address)
    with open_client(frozen) as client:
        yield Agent(build_model(frozen, topology, KEY, client), "subject")


Fly = Callable[..., tuple[Flown, Wire]]


@pytest.fixture
def fly(wire: Callable[..., Wire]) -> Fly:
    def make(*answers: Answer, **given: Any) -> tuple[Flown, Wire]:
        server, tools = wire(*answers), wire(http(200, {"temp": 8}))
        given = {"model": "groq"} | given
        events: list[Event] = []
        with _agent(server, **given) as agent:
            topology = lab_of(tools.address)
            result = agent("the prompt", context_in(topology, events, **given))
        return Flown(result, events, None), server  # type: ignore[arg-type]

    return make


def test_no_request_to_groqs_model_carries_response_format(fly: Fly) -> None:
    flown, server = fly(says(WEATHER), says(REPORT), groq_model="openai/gpt-oss-120b")
    assert flown.result.ended_by == "report"
    assert len(server.asked) == 2
    for asked in server.asked:
        assert asked.json["model"] == "openai/gpt-oss-120b"
        assert "response_format" not in asked.json
        assert "Report" in [tool["function"]["name"] for tool in asked.json["tools"]]


def test_the_request_is_as_the_settings_say(fly: Fly) -> None:
    _, server = fly(says(REPORT), seed=2**31 - 1, groq_model="some-model")
    [asked] = server.asked
    assert (asked.method, asked.target) == ("POST", "/openai/v1/chat/completions")
    assert (asked.json["model"], asked.json["seed"]) == ("some-model", 2**31 - 1)
    assert asked.json["temperature"] < 0.001
    assert asked.headers["authorization"] == f"Bearer {KEY}"


def test_the_scripted_model_is_asked_for_by_its_persona(fly: Fly) -> None:
    _, server = fly(says(REPORT), model="scripted", persona="stubborn")
    assert server.asked[0].json["model"] == "scripted-stubborn"


def test_tools_are_strict_on_the_wire_too(fly: Fly) -> None:
    _, server = fly(says(REPORT))
    functions = [tool["function"] for tool in server.asked[0].json["tools"]]
    lab_tools = [function for function in functions if function["name"] != "Report"]
    assert len(lab_tools) == len(TOOLS)
    assert all(function["parameters"]["additionalProperties"] is False for function in lab_tools)


def test_each_request_says_the_same_of_the_tools(fly: Fly) -> None:
    _, server = fly(says(WEATHER), says(WEATHER), says(REPORT))
    first, *others = [asked.json["tools"] for asked in server.asked]
    assert len(first) == len(TOOLS) + 1  # and the report
    assert others == [first, first]


def test_neither_key_nor_identity_is_in_what_the_model_reads(fly: Fly) -> None:
    flown, server = fly(says(WEATHER), says(WEATHER), says(REPORT))
    for asked in server.asked:
        text = asked.body.decode()
        assert not [
            word for word in (KEY, "run-1", "idempotency", "127.0.0.1", "wirefault") if word in text.lower()
        ]
    assert KEY not in json.dumps([asdict(event) for event in flown.events])


def test_each_request_names_its_ordinal_and_its_try(fly: Fly) -> None:
    flown, server = fly(SOON, says(WEATHER), says(REPORT))
    expected = [(1, 1), (1, 2), (2, 1)]
    assert [(asked.identity.call, asked.identity.try_) for asked in server.asked] == expected
    for asked, (ordinal, number) in zip(server.asked, expected, strict=True):
        headers = Identity("run-1", "001", 1, ordinal, number).headers("model")
        assert {name: asked.headers[name] for name in headers} == headers
    seen = [(call.ordinal, call.try_, call.status, call.error) for call in flown.of(ModelCall)]
    assert seen == [(1, 1, 503, "http_503"), (1, 2, 200, None), (2, 1, 200, None)]
    assert flown.result.ended_by == "report"


@pytest.mark.parametrize(
    ("answer", "error", "ended_by"),
    [
        (http(401, {"error": {"message": "bad key"}}), "http_401", "AuthenticationError"),
        (http(400, {"error": {"code": "tool_use_failed"}}), "http_400", "BadRequestError"),
        (http(200, b"<html>", Content_Type="text/html"), None, None),
        (http(200, b"{", Content_Type="application/json"), None, "JSONDecodeError"),
    ],
)
def test_what_the_client_does_not_retry_ends_the_attempt(
    answer: Answer, error: str | None, ended_by: str | None, fly: Fly
) -> None:
    flown, server = fly(answer)
    [call] = flown.of(ModelCall)
    assert (call.error, flown.result.ended_by) == (error, "exception")
    assert ended_by in (None, flown.result.error_type)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (silence, "ReadTimeout"),
        (drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"), "ReadTimeout"),
        (reset, "ReadError"),
        (b"", "RemoteProtocolError"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a', "RemoteProtocolError"),
    ],
)
def test_a_model_link_that_fails_is_recorded_and_tried_again(answer: Answer, error: str, fly: Fly) -> None:
    flown, _ = fly(answer, says(REPORT), model_timeout=2 if error == "ReadTimeout" else 30)
    first, second = flown.of(ModelCall)
    assert (first.error, first.status, first.try_) == (error, None, 1)
    assert (second.error, second.try_, flown.result.ended_by) == (None, 2, "report")


def test_the_attempts_time_bounds_a_model_that_is_silent(fly: Fly) -> None:
    flown, server = fly(silence, attempt_time=2, model_timeout=30)
    assert (flown.result.ended_by, flown.result.error) == ("limit", "2 s have passed (ATTEMPT_TIME)")
    assert (len(server.asked), len(flown.of(ModelCall))) == (1, 1)


def test_the_proxy_of_the_environment_is_not_used(fly: Fly, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    assert fly(says(REPORT))[0].result.ended_by == "report"


def test_arguments_that_are_no_json_end_in_an_empty_answer(fly: Fly) -> None:
    broken = says(("get_weather", {})).replace(b'"{}"', b'"{ "')
    flown, _ = fly(broken)
    assert (flown.result.ended_by, flown.of(ToolCalled)) == ("empty", [])


def test_the_model_object_shows_no_key() -> None:
    frozen = settings(model="groq")
    with open_client(frozen) as client:
        assert KEY not in repr(build_model(frozen, default_topology("lab-test"), KEY, client))
