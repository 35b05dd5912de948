"""Shared by the tests of the agent: a server that misbehaves on the wire, a model that follows a script."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from agent.loop import Agent
from tests.support import PATIENCE_S, replace
from tests.upstream import ReceivedRequest, Upstream, requests_of
from wirefault.core.identity import Identity
from wirefault.core.sockets import Address
from wirefault.history.events import Event
from wirefault.recovery.strategies import parse_recovery
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, SubjectResult
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import Topology, default_topology

Answer = bytes | Callable[[socket.socket], None]


class Wire:
    """A server that gives each connection its next answer and repeats the last one."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = chain(answers, repeat(answers[-1]))
        self.received: list[ReceivedRequest] = []
        self._upstream = Upstream(self._serve, ignored=())
        self.address = self._upstream.address

    def close(self) -> None:
        """Waits until every client has closed its connection. Can be called twice."""
        self._upstream.drain()

    def _serve(self, connection: socket.socket) -> None:
        answer = next(self._answers)
        connection.settimeout(PATIENCE_S)
        self.received.append(next(requests_of(connection)))
        if isinstance(answer, bytes):
            connection.sendall(answer)
        else:
            answer(connection)


# answers


def http(status: int, body: object = None, **headers: str) -> bytes:
    """A whole reply; a body that is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in {"Content-Length": len(content), **named}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Word", *lines, "Connection: close", "", ""]).encode() + content


def failed(status: int, message: str = "") -> bytes:
    return http(status, {"error": {"code": "x", "message": message}})


def silence(connection: socket.socket) -> None:
    """Says nothing until the client has gone."""
    while connection.recv(4096):
        pass


def reset(connection: socket.socket) -> None:
    """Closes with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def drip(start: bytes) -> Callable[[socket.socket], None]:
    """Goes on by one byte every few milliseconds until the client has gone."""

    def send(connection: socket.socket) -> None:
        try:
            connection.sendall(start)
            while not select.select([connection], [], [], 0.01)[0]:
                connection.sendall(b"x")
        except OSError:
            return

    return send


def then_reset(start: bytes) -> Callable[[socket.socket], None]:
    """Sends that, and RST once the client must have read it."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        select.select([connection], [], [], 0.05)
        reset(connection)

    return send


# the attempt


def lab_of(address: Address, services: Address | None = None) -> Topology:
    """A topology with all proxies, and by default all services, at one address."""
    names = [link.name for link in lab_links()]
    return replace(
        default_topology("lab-test"),
        proxies=dict.fromkeys(names, address),
        services=dict.fromkeys(names, services or address),
    )


def settings(**options: Any) -> Settings:
    return Settings(**{"seed": 7, "tool_timeout": PATIENCE_S, **options})


@dataclass
class AttemptRun:
    """An attempt and its recorded events."""

    result: SubjectResult
    events: list[Event]
    model: Script
    slept: list[float] = field(default_factory=list)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tool_results(self) -> list[ToolMessage]:
        """The tool results in the last request to the model."""
        return [message for message in self.model.received[-1] if isinstance(message, ToolMessage)]


class Clock:
    """A clock that moves only by a test or a sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def context_in(topology: Topology, events: list[Event], **options: Any) -> AttemptContext:
    identity = Identity(options.pop("run", "run-1"), "001", options.pop("attempt", 1))
    return AttemptContext(identity, settings(**options), topology, events.append)


def run_agent(topology: Topology, *replies: Any, clock: Clock | None = None, **options: Any) -> AttemptRun:
    """One attempt of the agent, its model following the script; ``options``: settings, run, attempt."""
    clock, model, events = clock or Clock(), Script(replies=list(replies)), list[Event]()
    recovery = parse_recovery(options.get("recovery", ""))
    agent = Agent(model, "subject", sleep=clock.sleep, clock=clock, recovery=recovery)
    result = agent("the prompt", context_in(topology, events, **options))
    return AttemptRun(result, events, model, clock.slept)


# the model


class Script(BaseChatModel):
    """Gives its replies in turn: a message, an exception to raise, or a callable that makes a message."""

    replies: list[Any]
    received: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        self.received.append(list(messages))
        reply = self.replies[min(len(self.received), len(self.replies)) - 1]
        if callable(reply):
            reply = reply()
        if isinstance(reply, Exception):
            raise reply
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(deep=True))])


def asks(*calls: tuple[str, dict[str, Any]], first_id: int = 0) -> AIMessage:
    """A reply with these tool calls. Ids restart in each reply, as with some models."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": arguments, "id": f"call_{number}"}
            for number, (name, arguments) in enumerate(calls, first_id)
        ],
    )


def reports(status: str = "done", answer: str = "It is done.", **more: Any) -> AIMessage:
    return asks(("Report", {"status": status, "answer": answer, **more}), first_id=99)


SEND = ("send_message", {"to": "Bob", "body": "hello"})
WEATHER = ("get_weather", {"city": "Paris"})
