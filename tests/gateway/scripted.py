"""Faults that tests script, an upstream for them, and how to arm them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of
from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Request, Step, chunk, json_reply
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.history.events import FaultMet

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
UPSTREAM_REPLY = b'{"n": 1}'


class Scripted(Fault):
    """A fault that a test scripts."""

    name = "scripted"
    family = "http"

    does: str

    def act(self, tried: Try) -> Act | Miss | None:
        return DOES[self.does](tried)


class Reads(Scripted):
    """A scripted fault that reads the whole body, and the link's earlier replies."""

    name = "reads"
    needs_body = True
    remembers = True


class Ours(Scripted):
    name = "ours"
    lab_only = True


def fails(*_: object) -> Any:
    raise ZeroDivisionError


class Editor:
    """Double the second event, then send ``ending``."""

    def __init__(self, ending: Ending = "keep") -> None:
        self.ending: Ending = "keep"
        self.then = ending
        self.why_not: Any = "nothing_to_change"
        self.evidence: dict[str, Any] = {}
        self.seen = 0

    def event(self, data: bytes) -> Sequence[Step]:
        self.seen += 1
        if self.seen != 2:
            return (data,)
        self.why_not, self.ending = None, self.then
        self.evidence["doubled"] = 2
        return (data, data)

    def end(self) -> Sequence[Step]:
        return ()


class Waiting(Editor):
    """Send nothing for a minute."""

    def event(self, data: bytes) -> Sequence[Step]:
        self.why_not = None
        return (60.0, data)


def greeting(tried: Try) -> Act:
    return Act(request=Request((*tried.request.headers, ("X-New", "1")), b"changed", "POST", "/new?b=2"))


DOES: dict[str, Callable[[Try], Act | Miss | None]] = {
    "nothing": lambda tried: None,
    "miss": lambda tried: Miss("nothing_to_change"),
    "fail": fails,
    "answer": lambda tried: Act(answer=json_reply(418, {"a": 1}, {"X-A": "b"}), evidence={"e": 1}),
    "late answer": lambda tried: Act(delay=0.03, answer=json_reply(418, {"a": 1})),
    "delay": lambda tried: Act(delay=0.05),
    "no delay": lambda tried: Act(),
    "cut": lambda tried: Act(answer=ReplyInPieces(Reply(), (b"fo",), "close", 9)),
    "reset": lambda tried: Act(answer=ReplyInPieces(Reply(), (b"fo",), "reset", 9)),
    "hang": lambda tried: Act(answer=ReplyInPieces(ending="hang")),
    "drip": lambda tried: Act(answer=ReplyInPieces(Reply(), (b"o", 0.03, b"k"), "keep", 2)),
    "garbage": lambda tried: Act(answer=ReplyInPieces(None, (b"\x00\x01",))),
    "request": greeting,
    "bad request": lambda tried: Act(request=Request((("A", "b\r\nC: d"),))),
    "twice": lambda tried: Act(copies=2),
    "reply": lambda tried: Act(reply=lambda reply: Changed(reply.with_json({"n": 2}), {"was": reply.json()})),
    "reply miss": lambda tried: Act(reply=lambda reply: Miss("no_tool_result_to_change")),
    "reply fail": lambda tried: Act(reply=fails),
    "lose reply": lambda tried: Act(reply=lambda reply: Changed(ReplyInPieces())),
    "upper": lambda tried: Act(reply=lambda reply: Changed(reply.with_body(reply.body.upper()))),
    "events": lambda tried: Act(events=Editor),
    "events cut": lambda tried: Act(events=lambda: Editor("close")),
    "events wait": lambda tried: Act(events=Waiting),
    "events fail": lambda tried: Act(events=fails),
    "earlier": lambda tried: Act(answer=tried.earlier[0]) if tried.earlier else Miss("no_earlier_answer"),
}


SCRIPTED: tuple[type[Fault], ...] = (Scripted, Reads, Ours)


def armed(*does: str, links: str = "all", fault: str = "scripted") -> str:
    return json.dumps({"faults": [{"fault": fault, "links": links, "with": {"does": deed}} for deed in does]})


class ScriptedUpstream:
    """An upstream on keep-alive connections: gives ``reply`` (its body, by default) and keeps requests."""

    def __init__(self, reply: bytes | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self.reply = reply or sized(UPSTREAM_REPLY)
        self.upstream = Upstream(self._serve)

    def _serve(self, connection: socket.socket) -> None:
        self.connections.append(connection)
        for request in requests_of(connection):
            self.requests.append(request.raw)
            connection.sendall(self.reply)
            if b"Connection: close" in self.reply:
                return


def sized(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


CLOSED = {"lost": True, "closed": True}  # must be seen by the caller of a reply that breaks off
EVENTS = [b"data: %d\n\n" % number for number in range(3)]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*events: bytes) -> bytes:
    return STREAM + b"".join(chunk(event) for event in events) + chunk(b"")


def ask(
    lab: Lab, link: str = "search", method: str = "GET", headers: Mapping[str, str] | None = None, **more: Any
) -> requests.Response:
    all_headers = {**lab.identity(link), **(headers or {})}
    return requests.request(method, lab.url(link, "/a"), headers=all_headers, timeout=PATIENCE_S, **more)


def only(lab: Lab) -> FaultMet:
    (hit,) = lab.exchange().faults
    return hit
