"""The model client at a recording server: contents of each request, numbering and limit of tries."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import to_builtins

from agent.loop import Agent
from agent.models import build_model, open_client
from agent.tools import TOOLS
from tests.agent.support import (
    WEATHER,
    Answer,
    AttemptRun,
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
def _agent(server: Wire, **options: Any) -> Iterator[Agent]:
    frozen, topology = settings(**options), lab_of(server.address)
    with open_client(frozen) as client:
        yield Agent(build_model(frozen, topology, KEY, client), "subject")


RunAgent = Callable[..., tuple[AttemptRun, Wire]]


@pytest.fixture
def run_agent(wire: Callable[..., Wire]) -> RunAgent:
    def make(*answers: Answer, **options: Any) -> tuple[AttemptRun, Wire]:
        server, tools = wire(*answers), wire(http(200, {"temp": 8}))
        options = {"model": "groq"} | options
        events: list[Event] = []
        with _agent(server, **options) as agent:
            topology = lab_of(tools.address)
            result = agent("the prompt", context_in(topology, events, **options))
        return AttemptRun(result, events, None), server  # type: ignore[arg-type]

    return make


def test_groq_requests_have_no_response_format(run_agent: RunAgent) -> None:
    outcome, server = run_agent(says(WEATHER), says(REPORT), groq_model="openai/gpt-oss-120b")
    assert outcome.result.ended_by == "report"
    assert len(server.received) == 2
    for request in server.received:
        assert request.json["model"] == "openai/gpt-oss-120b"
        assert "response_format" not in request.json
        assert "Report" in [tool["function"]["name"] for tool in request.json["tools"]]


def test_request_follows_settings(run_agent: RunAgent) -> None:
    _, server = run_agent(says(REPORT), seed=2**31 - 1, groq_model="some-model")
    [request] = server.received
    assert (request.method, request.target) == ("POST", "/openai/v1/chat/completions")
    assert (request.json["model"], request.json["seed"]) == ("some-model", 2**31 - 1)
    assert request.json["temperature"] < 0.001
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_scripted_model_name_has_persona(run_agent: RunAgent) -> None:
    _, server = run_agent(says(REPORT), model="scripted", persona="stubborn")
    assert server.received[0].json["model"] == "scripted-stubborn"


def test_tools_are_strict_on_wire_too(run_agent: RunAgent) -> None:
    _, server = run_agent(says(REPORT))
    functions = [tool["function"] for tool in server.received[0].json["tools"]]
    lab_tools = [function for function in functions if function["name"] != "Report"]
    assert len(lab_tools) == len(TOOLS)
    assert all(function["parameters"]["additionalProperties"] is False for function in lab_tools)


def test_tools_are_equal_in_each_request(run_agent: RunAgent) -> None:
    _, server = run_agent(says(WEATHER), says(WEATHER), says(REPORT))
    first, *others = [request.json["tools"] for request in server.received]
    assert len(first) == len(TOOLS) + 1  # and the report
    assert others == [first, first]


def test_model_input_has_no_key_or_identity(run_agent: RunAgent) -> None:
    outcome, server = run_agent(says(WEATHER), says(WEATHER), says(REPORT))
    for request in server.received:
        text = request.body.decode()
        assert not [
            word for word in (KEY, "run-1", "idempotency", "127.0.0.1", "wirefault") if word in text.lower()
        ]
    assert KEY not in json.dumps([to_builtins(event) for event in outcome.events])


def test_each_request_has_call_and_try_numbers(run_agent: RunAgent) -> None:
    outcome, server = run_agent(SOON, says(WEATHER), says(REPORT))
    expected = [(1, 1), (1, 2), (2, 1)]
    assert [(request.identity.call, request.identity.try_) for request in server.received] == expected
    for request, (ordinal, number) in zip(server.received, expected, strict=True):
        headers = Identity("run-1", "001", 1, ordinal, number).headers("model")
        assert {name: request.headers[name] for name in headers} == headers
    seen = [(call.ordinal, call.try_, call.status, call.error) for call in outcome.of(ModelCall)]
    assert seen == [(1, 1, 503, "http_503"), (1, 2, 200, None), (2, 1, 200, None)]
    assert outcome.result.ended_by == "report"


@pytest.mark.parametrize(
    ("answer", "error", "ended_by"),
    [
        (http(401, {"error": {"message": "bad key"}}), "http_401", "AuthenticationError"),
        (http(400, {"error": {"code": "tool_use_failed"}}), "http_400", "BadRequestError"),
        (http(200, b"<html>", Content_Type="text/html"), None, None),
        (http(200, b"{", Content_Type="application/json"), None, "JSONDecodeError"),
    ],
)
def test_unretried_model_errors_end_attempt(
    answer: Answer, error: str | None, ended_by: str | None, run_agent: RunAgent
) -> None:
    outcome, server = run_agent(answer)
    [call] = outcome.of(ModelCall)
    assert (call.error, outcome.result.ended_by) == (error, "exception")
    assert ended_by in (None, outcome.result.error_type)
    assert len(server.received) == 1


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
def test_model_failures_are_recorded_and_retried(answer: Answer, error: str, run_agent: RunAgent) -> None:
    outcome, _ = run_agent(answer, says(REPORT), model_timeout=2 if error == "ReadTimeout" else 30)
    first, second = outcome.of(ModelCall)
    assert (first.error, first.status, first.try_) == (error, None, 1)
    assert (second.error, second.try_, outcome.result.ended_by) == (None, 2, "report")


def test_attempt_time_bounds_silent_model(run_agent: RunAgent) -> None:
    outcome, server = run_agent(silence, attempt_time=2, model_timeout=30)
    assert (outcome.result.ended_by, outcome.result.error) == ("limit", "2 s have passed (ATTEMPT_TIME)")
    assert (len(server.received), len(outcome.of(ModelCall))) == (1, 1)


def test_environment_proxy_is_ignored(run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    assert run_agent(says(REPORT))[0].result.ended_by == "report"


def test_malformed_arguments_end_in_empty_answer(run_agent: RunAgent) -> None:
    broken = says(("get_weather", {})).replace(b'"{}"', b'"{ "')
    outcome, _ = run_agent(broken)
    assert (outcome.result.ended_by, outcome.of(ToolCalled)) == ("empty", [])


def test_model_object_hides_key() -> None:
    frozen = settings(model="groq")
    with open_client(frozen) as client:
        assert KEY not in repr(build_model(frozen, default_topology("lab-test"), KEY, client))
