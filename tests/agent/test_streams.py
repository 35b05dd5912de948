"""``STREAM=on``: the model's reply as an event stream, and its record."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence

import pytest

from agent.loop import Agent
from agent.models import build_model, open_client
from tests.agent.support import Answer, AttemptRun, Wire, context_in, lab_of, settings, silence
from wirefault.core.identity import body_digest
from wirefault.history.events import Event, ModelCall

pytestmark = pytest.mark.slow  # its clients wait for their time limits

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
REPORT = json.dumps({"status": "done", "answer": "It is 8."})


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({**chunk, "choices": choices}).encode() + b"\n\n"


def _arguments(text: str, **more: object) -> bytes:
    return _event({"tool_calls": [{"index": 0, **more, "function": {"arguments": text}}]})


EVENTS = [
    _event({"role": "assistant", "content": ""}),
    _event({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "Report"}}]}),
    *(_arguments(REPORT[at : at + 20]) for at in range(0, len(REPORT), 20)),
    _event({}, "tool_calls"),
    b"data: [DONE]\n\n",
]


def _stream(events: Sequence[bytes]) -> bytes:
    return HEAD + b"".join(events)


RunAgent = Callable[..., tuple[AttemptRun, Wire]]


@pytest.fixture
def run_agent(wire: Callable[..., Wire]) -> RunAgent:
    def make(answer: Answer, **options: object) -> tuple[AttemptRun, Wire]:
        server, events = wire(answer), list[Event]()
        options = {"model": "groq", "stream": True} | options
        frozen, topology = settings(**options), lab_of(server.address)
        with open_client(frozen) as client:
            agent = Agent(build_model(frozen, topology, "key", client), "subject")
            result = agent("the prompt", context_in(topology, events, **options))
        return AttemptRun(result, events, None), server  # type: ignore[arg-type]

    return make


def test_stream_is_assembled_and_recorded(run_agent: RunAgent) -> None:
    outcome, server = run_agent(_stream(EVENTS))
    assert (outcome.result.ended_by, outcome.result.response) == ("report", "It is 8.")
    assert server.received[0].json["stream"] is True
    [call] = outcome.of(ModelCall)
    assert (call.status, call.error, call.reply_digest) == (200, None, body_digest(b"".join(EVENTS)))


@pytest.mark.parametrize(
    ("rest", "error"),
    [(silence, "ReadTimeout"), (lambda connection: None, "RemoteProtocolError")],
)
def test_interrupted_stream_is_recorded_with_its_error(
    rest: Callable[[socket.socket], None], error: str, run_agent: RunAgent
) -> None:
    def stops(connection: socket.socket) -> None:
        head = HEAD.replace(b"Connection: close", b"Content-Length: 9999")
        connection.sendall(head + b"".join(EVENTS[:3]))
        rest(connection)

    outcome, _ = run_agent(stops, model_timeout=2)
    [call] = outcome.of(ModelCall)
    assert (call.status, call.error, call.reply_digest) == (200, error, "")
    assert (outcome.result.ended_by, outcome.result.error_type) == ("exception", error)


def test_abandoned_stream_is_recorded(run_agent: RunAgent) -> None:
    outcome, _ = run_agent(_stream([*EVENTS[:2], b"data: {no json\n\n", *EVENTS[2:]]))
    [call] = outcome.of(ModelCall)
    assert (call.status, call.error, call.reply_digest) == (200, None, "")
    assert outcome.result.error_type == "JSONDecodeError"


def test_endless_stream_is_bounded_by_attempt_time(run_agent: RunAgent) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        try:
            while True:
                connection.sendall(_event({"content": "x"}))
        except OSError:
            return

    outcome, _ = run_agent(endless, attempt_time=2)
    assert (outcome.result.ended_by, outcome.result.error) == ("limit", "2 s have passed (ATTEMPT_TIME)")
    assert [call.error for call in outcome.of(ModelCall)] == ["ReadTimeout"]
