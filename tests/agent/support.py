"""What the tests of the agent share: a server that misbehaves on the wire, a model that follows a script."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from agent.loop import Agent
from windtunnel.core.identity import Identity, parse_baggage
from windtunnel.core.sockets import LOOPBACK, Address, address_of, bind
from windtunnel.history.events import Event
from windtunnel.links.catalog import LINKS
from windtunnel.links.topology import Topology, default_topology
from windtunnel.settings.settings import Settings
from windtunnel.subjects.subject import AttemptContext, SubjectResult

DEADLINE_S = 10.0
Answer = bytes | Callable[[socket.socket], None]


@dataclass(frozen=True)
class Asked:
    """One request, as its bytes were."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def identity(self) -> Identity:
        identity = parse_baggage(self.headers["baggage"])
        assert identity is not None
        return identity

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


class Wire:
    """Serves connections on an ephemeral port: each gets the next answer, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self._listener = bind(Address(LOOPBACK, 0))
        self.address = address_of(self._listener)
        self._threads: list[threading.Thread] = []
        self._numbers = count()
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self) -> None:
        """Waits until every client has closed its connection. Can be called twice."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection, next(self._numbers)))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection:
            connection.settimeout(DEADLINE_S)
            self.asked.append(_read_request(connection))
            answer = self.answers[min(number, len(self.answers) - 1)]
            if isinstance(answer, bytes):
                connection.sendall(answer)
            else:
                answer(connection)


def _read_request(connection: socket.socket) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body)


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
    """A topology whose proxies, and services too unless others are given, are all at one address."""
    names = [link.name for link in LINKS]
    return replace(
        default_topology("lab-test"),
        proxies=dict.fromkeys(names, address),
        services=dict.fromkeys(names, services or address),
    )


def settings(**given: Any) -> Settings:
    return Settings(**{"seed": 7, "tool_timeout": DEADLINE_S, **given})


@dataclass
class Flown:
    """An attempt and what it recorded."""

    result: SubjectResult
    events: list[Event]
    model: Script
    slept: list[float] = field(default_factory=list)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def told(self) -> list[ToolMessage]:
        """What the model was told by tools, by the last time that it was asked."""
        return [message for message in self.model.asked[-1] if isinstance(message, ToolMessage)]


class Clock:
    """Stands still but for what a test or a sleep adds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def context_in(topology: Topology, events: list[Event], **given: Any) -> AttemptContext:
    identity = Identity(given.pop("run", "run-1"), "001", given.pop("attempt", 1))
    return AttemptContext(identity, settings(**given), topology, events.append)


def fly(topology: Topology, *replies: Any, clock: Clock | None = None, **given: Any) -> Flown:
    """One attempt of the agent, its model following the script; ``given``: settings, run, attempt."""
    clock, model, events = clock or Clock(), Script(replies=list(replies)), list[Event]()
    agent = Agent(model, "subject", sleep=clock.sleep, clock=clock)
    result = agent("the prompt", context_in(topology, events, **given))
    return Flown(result, events, model, clock.slept)


# the model


class Script(BaseChatModel):
    """Gives its replies in turn: a message, an exception to raise, or a callable that makes a message."""

    replies: list[Any]
    asked: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

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
        self.asked.append(list(messages))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if callable(reply):
            reply = reply()
        if isinstance(reply, Exception):
            raise reply
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(deep=True))])


def asks(*calls: tuple[str, dict[str, Any]], first_id: int = 0) -> AIMessage:
    """A reply with these tool calls. Ids are counted anew in each reply, as some models do."""
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
