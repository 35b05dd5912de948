"""What a fault is: it looks at one try and says what becomes of it. Pure.

A fault is a small class with typed parameters, registered in ``wirefault.faults.catalogue``. Its docstring
is its page in the catalogue. A fault has no effects: it returns an ``Act``, which the gateway carries out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from wirefault.core.caller_errors import NOTHING, ErrorKind
from wirefault.dialects import Dialect
from wirefault.dialects.http import Ending, RawReply, Reply, Request, Step

_Family = Literal["http", "meaning", "model", "context", "mcp"]
Where = Literal["any", "tool", "model", "mcp"]
McpView = Literal["reply", "message", "result"]
WhyNot = Literal[
    "spared",  # the blast radius leaves this episode, or this call of it, alone
    "already_faulted",  # another fault changed this try before it
    "no_tool_result_to_change",  # the reply holds nothing of the kind that it changes
    "nothing_to_change",  # the request or the model's reply holds nothing of the kind that it changes
    "no_earlier_answer",  # the link has given no earlier answer that differs
    "not_a_line",  # it acts on lines of stdio, and this message came over HTTP
    "not_a_stream",  # it acts on event streams, and this reply is none
    "cut_short",  # the client left, or the attempt ended, before it could act
    "upstream_failed",  # no whole reply came that it could have changed
    "too_large",  # the message is larger than the gateway keeps
    "failed",  # the fault's own code raised an exception
    "unreadable",  # compressed in a way that the gateway cannot read, or not of the link's protocol
]

# how the id of what a budget does to a try begins, which no entry of a fault set has
BUDGET_ID = "budget:"
MAX_EVIDENCE = 4096
_MAX_EVIDENCE_BRACKETS = 100


@dataclass(frozen=True)
class Try:
    """One try that has met a fault, its request whole.

    ``dialect`` is what is spoken on the link. ``call`` is the number of the logical call among those with
    the same fingerprint, ``try_`` that of the HTTP try of this call; both count from 1. ``ordinal`` counts
    the logical calls on that link in the episode which the fault's entry selects, if the fault is
    ``by_order`` (else it is 1). ``chance(purpose)`` is the schedule's keyed draw in [0, 1) for this try and
    this entry. ``earlier`` holds the link's whole replies in this episode, oldest first, if the fault
    ``remembers``. ``lines``: the message travels as a line of its own (MCP over stdio), not over HTTP.
    """

    link: str
    dialect: Dialect
    request: Request
    episode: str
    attempt: int
    call: int
    try_: int
    ordinal: int
    chance: Callable[[str], float]
    earlier: Sequence[Reply] = ()
    lines: bool = False


@dataclass(frozen=True)
class Miss:
    """The try has met the fault, which changed nothing: it is not injected, and this is why."""

    why: WhyNot


@dataclass(frozen=True)
class Changed:
    """What the client gets in the reply's place. ``evidence`` (JSON) shows in the history what was done."""

    reply: Reply | RawReply
    evidence: Mapping[str, Any] = field(default_factory=dict)


class EventEditor(Protocol):
    """Changes one event stream as it goes by. The gateway frames what an editor returns.

    After every call the gateway reads ``ending``: anything but ``keep`` ends the reply there. ``why_not`` is
    None once the editor has changed something. The gateway reads ``evidence`` when the stream has ended.
    """

    ending: Ending
    why_not: WhyNot | None
    evidence: dict[str, Any]

    def event(self, data: bytes) -> Sequence[Step]:
        """What is sent for one whole event, its blank line included: bytes, and seconds to wait."""

    def end(self) -> Sequence[Step]:
        """What is sent after the upstream's last event."""


@dataclass(frozen=True)
class Act:
    """What a fault does with a try; the default of each field leaves things as they are.

    - ``delay``: seconds before the request goes on; the delays of several faults add up.
    - ``answer``: what the client gets in the upstream's place, which never sees the request.
    - ``request``: what is forwarded in the original's place.
    - ``copies``: how often the upstream gets the request, one after the other; the client gets the last
      answer.
    - ``reply``: turns the upstream's whole reply into what the client gets.
    - ``events``: makes an editor that changes an event stream as it comes; with both, ``reply`` is for a
      reply that is no event stream.
    - ``evidence`` (JSON) shows in the history what was done.
    """

    delay: float = 0.0
    answer: Reply | RawReply | None = None
    request: Request | None = None
    copies: int = 1
    reply: Callable[[Reply], Changed | Miss] | None = None
    events: Callable[[], EventEditor] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def only_delays(self) -> bool:
        """Whether the try goes on unchanged, only later."""
        return self == Act(delay=self.delay, evidence=self.evidence)


class Fault(BaseModel):
    """One kind of fault with its parameters. Subclasses are frozen and refuse unknown parameters.

    - ``name``: how fault sets, the history and the catalogue call it.
    - ``family``: the part of the catalogue that has its page.
    - ``where``: the links that it can act on.
    - ``needs_body``: it reads the request's body, so that the gateway keeps long ones too.
    - ``remembers``: it needs the link's earlier replies.
    - ``lab_only``: it acts only on links whose servers are the lab's own.
    - ``messages``: on a link of MCP, the methods of the messages that it acts on; ``*`` stands for anything.
    - ``mcp_view``: what it is shown of an exchange there: the ``reply`` as it came; the response ``message``
      alone, however it came; or a tool's arguments as the request and its ``result`` as the reply.
    - ``chooses``: its ``act`` may return None, which lets the try pass.
    - ``can_cause``: the errors of a try that it may lead to; one that only changes what a reply says leads to
      none. It explains no other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: ClassVar[str]
    family: ClassVar[_Family]
    where: ClassVar[Where] = "any"
    needs_body: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    lab_only: ClassVar[bool] = False
    messages: ClassVar[tuple[str, ...]] = ("tools/call",)
    mcp_view: ClassVar[McpView] = "reply"
    chooses: ClassVar[bool] = False
    can_cause: ClassVar[frozenset[ErrorKind]] = NOTHING

    @property
    def causes(self) -> frozenset[ErrorKind]:
        """Those of ``can_cause`` that it may lead to with these parameters."""
        return self.can_cause

    @property
    def by_order(self) -> bool:
        """Whether it depends on ``ordinal`` or ``earlier``, and so on the order in which calls arrive."""
        return self.remembers

    def wants(self, chance: Callable[[str], float]) -> bool:
        """For a fault that ``chooses`` by chance: whether a try with these draws meets it. The matcher asks
        this before it builds the ``Try``, which costs more."""
        return True

    def act(self, tried: Try) -> Act | Miss | None:
        """What becomes of the try; None lets it pass as if it had not met the fault. Never raises."""
        raise NotImplementedError


def evidence_of(value: Any) -> Any:
    """A JSON value as evidence: itself, or the first 4096 characters of its JSON text where that is longer
    or holds more than 100 objects and lists (the history's readers refuse what is nested too deep)."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"
    shallow = text.count("{") + text.count("[") <= _MAX_EVIDENCE_BRACKETS
    return value if shallow and len(text) <= MAX_EVIDENCE else evidence_text(text)


def evidence_text(text: str | bytes) -> str:
    """A text, or bytes as text, as evidence: at most the first 4096 characters or bytes of it."""
    head = text[:MAX_EVIDENCE]
    return head if isinstance(head, str) else head.decode("utf-8", "replace")
