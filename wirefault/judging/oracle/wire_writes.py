"""What an upstream did with the writes that the wiring declares, by the gateway's record of them. Pure.

A request that was forwarded whole is *executed* if the upstream answered 2xx or 3xx, *refused* at 4xx and
*maybe* at 5xx or without an answer, whatever its caller saw. A tool of MCP says below a 2xx whether it has
done it: a result is *executed*, an error *refused*, and what the gateway could not read *maybe*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal
from urllib.parse import parse_qsl

from wirefault.dialects.mcp import ToolAnswer, read_message
from wirefault.history.events import Exchange

Fate = Literal["executed", "refused", "maybe"]
FATES: tuple[Fate, ...] = ("executed", "maybe", "refused")
# The same again changes nothing more: RFC 9110, 9.2.2.
IDEMPOTENT_METHODS = frozenset(("PUT", "DELETE"))
_NOT_KNOWN: ToolAnswer = ""
_BY_TOOL_ANSWER: Mapping[ToolAnswer, Fate] = {"result": "executed", "error": "refused", "": "maybe"}


@dataclass(frozen=True)
class WireWrite:
    """One delivery of a declared write, and what the upstream did with it. ``status``: what it answered."""

    exchange: Exchange
    fate: Fate
    status: int | None

    @property
    def path(self) -> str:
        return self.exchange.target.partition("?")[0]

    @property
    def query(self) -> Mapping[str, str]:
        return dict(parse_qsl(self.exchange.target.partition("?")[2], keep_blank_values=True))

    @property
    def body_is_known(self) -> bool:
        return self.exchange.request_body is not None and not self.exchange.request_cut

    @property
    def body(self) -> Any:
        """What the body says: as JSON or as a form, else its text; of a tool of MCP its arguments."""
        text = self.exchange.request_body or ""
        if self.exchange.tool:
            message = read_message(text.encode())
            return message.arguments if message is not None else {}
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return dict(parse_qsl(text)) or text

    @property
    def name(self) -> str:
        return f"{self.exchange.tool or f'{self.exchange.method} {self.path}'} of {self.exchange.link}"

    @property
    def refusal(self) -> str:
        """What a refused one was answered: a status, or the error of a tool."""
        return "an error of the tool" if self.status is not None and self.status < 400 else str(self.status)

    @property
    def row(self) -> dict[str, Any]:
        """Its time, as a row of the lab's own side effects has it."""
        return {"at": self.exchange.start, "idempotency_key": None}


def fate_of(status: int | None, tool_answer: ToolAnswer | None = None) -> Fate:
    """By what the upstream answered; ``tool_answer`` is None for what is no call of a tool of MCP."""
    if status is None or status >= 500:
        return "maybe"
    if status >= 400:
        return "refused"
    return "executed" if tool_answer is None else _BY_TOOL_ANSWER[tool_answer]


def deliveries(exchange: Exchange) -> Iterator[WireWrite]:
    """Each delivery of a write to its upstream: several where a fault of the gateway repeated it."""
    if not (exchange.write and exchange.forwarded):
        return
    for status, tool_answer in _answers(exchange):
        yield WireWrite(exchange, fate_of(status, tool_answer if exchange.tool else None), status)


def _answers(exchange: Exchange) -> Iterator[tuple[int | None, ToolAnswer]]:
    """The status that each delivery was answered with, and how a tool answered it."""
    for met in exchange.faults:
        copies, statuses = met.evidence.get("copies"), met.evidence.get("statuses")
        if met.injected and isinstance(copies, int) and isinstance(statuses, list):
            unanswered = [None] if len(statuses) < copies else []
            before_last = met.evidence.get("tool_answers", [])
            tool_answers = chain(before_last, [exchange.tool_answer], repeat(_NOT_KNOWN))
            yield from zip([*statuses, *unanswered], tool_answers, strict=False)
            return
    yield exchange.answered, exchange.tool_answer


def world_writes(exchanges: Iterable[Exchange]) -> list[WireWrite]:
    """The writes as they count in the world, oldest first.

    Of those that share a key their upstream knows that they are one, and a PUT or a DELETE that is the same
    again changes nothing more: of these one counts, an executed one if there is any.
    """
    alone: list[WireWrite] = []
    shared: dict[tuple[str, ...], WireWrite] = {}
    for exchange in sorted(exchanges, key=lambda exchange: exchange.start):
        for write in deliveries(exchange):
            identity = _identity(exchange)
            if identity is None:
                alone.append(write)
            elif identity not in shared or FATES.index(write.fate) < FATES.index(shared[identity].fate):
                shared[identity] = write
    return sorted([*alone, *shared.values()], key=lambda write: write.exchange.start)


def _identity(exchange: Exchange) -> tuple[str, ...] | None:
    """By which a repetition is no further write; None if each one is."""
    call = (exchange.link, exchange.method, exchange.target.partition("?")[0], exchange.tool)
    if exchange.key:
        return (*call, exchange.key)
    if exchange.method in IDEMPOTENT_METHODS:
        return (*call, "", exchange.fingerprint)
    return None
