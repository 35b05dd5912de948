"""What a fault is: it looks at one try and says what becomes of it. Pure.

A fault is a small class with typed parameters, registered in ``windtunnel.faults.catalogue``. Its docstring
is its page in the catalogue. It does nothing itself: it returns an ``Act``, which the gateway carries out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from windtunnel.dialects import Dialect
from windtunnel.dialects.http import Ending, RawReply, Reply, Request, Step

Family = Literal["http", "meaning", "model", "context"]
Where = Literal["any", "tool", "model"]
WhyNot = Literal[
    "already_faulted",  # another fault changed this try before it
    "no_tool_result_to_change",  # the reply holds nothing of the kind that it changes
    "nothing_to_change",  # the request or the model's reply holds nothing of the kind that it changes
    "no_earlier_answer",  # there is no earlier one to give again
    "not_a_stream",  # it acts on event streams, and this reply is none
    "cut_short",  # the client left, or the attempt ended, before it could act
    "upstream_failed",  # no whole reply came that it could have changed
    "too_large",  # the message is larger than the gateway keeps
    "failed",  # the fault's own code raised an exception
    "unreadable",  # compressed in a way that the gateway cannot read, or not of the link's protocol
]


KEPT = 4096
_DEEPEST = 100


@dataclass(frozen=True)
class Try:
    """One try that a fault strikes, its request whole.

    ``dialect``: what is spoken on the link; ``call`` and ``try_`` count from 1 as in DESIGN; ``ordinal``
    counts the logical calls that the fault's entry matched on that link in the episode, for a fault that
    says ``by_order`` (else it is 1). ``chance(purpose)`` is the schedule's keyed draw in [0, 1)
    for this try and this entry. ``earlier``: the link's whole replies in this episode, oldest first, for a
    fault that ``remembers``.
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


@dataclass(frozen=True)
class Miss:
    """The fault struck and changed nothing: it is not injected, and this is why."""

    why: WhyNot


@dataclass(frozen=True)
class Changed:
    """What the client gets in the reply's place. ``evidence`` goes into the ledger (JSON)."""

    reply: Reply | RawReply
    evidence: Mapping[str, Any] = field(default_factory=dict)


class EventEditor(Protocol):
    """Follows one event stream as it goes by. The gateway frames what it returns.

    ``ending`` is looked at after every call: anything but ``keep`` ends the reply there. ``why_not`` is
    None once it has changed something; ``evidence`` is read at the end.
    """

    ending: Ending
    why_not: WhyNot | None
    evidence: dict[str, Any]

    def event(self, data: bytes) -> Sequence[Step]:
        """What becomes of one whole event, its blank line included: bytes, and seconds to wait."""

    def end(self) -> Sequence[Step]:
        """What follows after the upstream's last event."""


@dataclass(frozen=True)
class Act:
    """What a fault does with a try; each field, by default, leaves things as they are.

    ``delay`` (seconds, before the request goes on; delays of several faults add up). ``answer``: given in
    the upstream's place, which never sees the request. ``request``: forwarded in the original's place.
    ``copies``: how often the upstream gets it, one after the other; the client gets the last answer.
    ``reply``: turns the upstream's whole reply into what the client gets. ``events``: the same for event
    streams, as they come; with both, ``reply`` is for what is no event stream.
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
        return (self.answer, self.request, self.copies, self.reply, self.events) == (
            None,
            None,
            1,
            None,
            None,
        )


class Fault(BaseModel):
    """One kind of fault with its parameters. Subclasses are frozen and refuse unknown parameters.

    ``where`` it can strike; ``needs_body``: it reads the request's body, so that more of it is kept;
    ``remembers``: it needs the link's earlier replies; ``lab_only``: only on links whose servers are the
    lab's own; ``chooses``: its ``act`` may return None, letting some of the tries pass that it strikes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    family: ClassVar[Family]
    where: ClassVar[Where] = "any"
    needs_body: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    lab_only: ClassVar[bool] = False
    chooses: ClassVar[bool] = False

    @property
    def by_order(self) -> bool:
        """Whether it goes by ``ordinal`` or ``earlier``, and so by the order in which calls arrive."""
        return self.remembers

    def wants(self, chance: Callable[[str], float]) -> bool:
        """For a fault that ``chooses``: whether its draw strikes, asked before the try is made up."""
        return True

    def act(self, this: Try) -> Act | Miss | None:
        """What becomes of the try; None lets it pass as if it had not met the fault."""
        raise NotImplementedError


def kept(value: Any) -> Any:
    """A value as evidence: itself, or the first 4 KiB of its JSON text where it is large or deep."""
    try:
        whole = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"
    shallow = whole.count("{") + whole.count("[") <= _DEEPEST
    return value if shallow and len(whole) <= KEPT else whole[:KEPT]
