"""What a run asks of a subject, an agent under test, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType
from typing import Protocol, runtime_checkable

from wirefault.core.identity import Identity
from wirefault.history.events import EndedBy, ErrorClass, Event, Level, Report
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings
from wirefault.wiring.topology import Topology

# What was said in a conversation, as models take it: ``{"role": "user", "content": text}``, or ``assistant``.
Said = dict[str, str]
# What the user says next, None for nothing more. Raises ``LabFailed``.
MakeTurn = Callable[[list[Said]], str | None]


class LabFailed(Exception):
    """The lab, not the subject, failed while the subject worked on a prompt; the message says how."""


@dataclass(frozen=True)
class AttemptContext:
    """One attempt as the subject sees it.

    ``identity`` makes the headers of its requests, ``topology.proxies`` has the address of each link, and
    ``record`` takes events (such as ``ToolTry``) into the history. The prompt's oracle is not in it.
    ``turns``: what is said in a conversation, one after the other; empty where the prompt is all.
    ``make_turn``: those that follow, where they are made from what was said. ``begin_turn`` is to be called
    with the number of each turn, from 1, and its text before it is said; the first may be left out. It
    returns when what strikes in that turn is in force, and raises ``LabFailed``.
    ``budget_spent``: which budget was used up that ends the attempt, in words; empty while none is. A subject
    that can end by itself asks it; any other is ended.
    """

    identity: Identity
    settings: Settings
    topology: Topology
    record: Callable[[Event], object]
    turns: tuple[str, ...] = ()
    begin_turn: Callable[[int, str], object] = lambda _number, _text: None
    make_turn: MakeTurn | None = None
    budget_spent: Callable[[], str] = str


@dataclass(frozen=True)
class SubjectResult:
    """How the attempt ended. ``response`` is what a user would read; ``report`` what can be judged.

    ``error_class`` as in ``AttemptEnded``; None where the subject does not say: the agent's own, if there is
    an error. ``answers``: those to each turn of a conversation; ``turn_ends``: when each was there (seconds
    since the epoch), None where the subject was not asked turn by turn.
    """

    ended_by: EndedBy
    report: Report | None = None
    response: str = ""
    error_type: str | None = None
    error: str | None = None
    error_class: ErrorClass | None = None
    answers: tuple[str, ...] = ()
    turn_ends: tuple[float, ...] | None = None


@runtime_checkable
class Subject(Protocol):
    """An agent under test: called with a prompt, it makes one attempt at it.

    Exceptions count as its crash, except ``LabFailed``. A subclass inherits the defaults below and needs no
    more than a name and ``__call__``.
    """

    # in the summary: ``langchain agent, openai/gpt-oss-120b (groq)``; empty: the class's name
    name: str = ""
    # command, service, http or python; empty for an object in the runner's own process
    kind: str = ""
    # whether it records every call and try; of any other, only the gateway's record is known
    keeps_record: bool = False
    # whether it takes further turns of a conversation
    holds_conversations: bool = False
    # for the user at the start of a run, for example how its connections are caught
    notes: Sequence[tuple[Level, str]] = ()

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult: ...

    def stop(self) -> None:
        """End its processes, if it has any; the next attempt starts them again."""
        return


class SubjectWrapper(Subject):
    """Another subject with something done around its calls; ``inner`` is that subject."""

    def __init__(self, inner: Subject) -> None:
        self.inner = inner
        self.name = inner.name
        self.kind = inner.kind
        self.keeps_record = inner.keeps_record
        self.holds_conversations = inner.holds_conversations
        self.notes = inner.notes

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        return self.inner(prompt, context)

    def stop(self) -> None:
        self.inner.stop()


class _FunctionSubject(Subject):
    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self.name = function.__name__

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        result: SubjectResult = self._function(prompt, context)
        return result


def as_subject(opened: object) -> Subject:
    """Return a subject unchanged, a plain function as a subject. Raises ``TypeError`` for anything else."""
    if isinstance(opened, FunctionType):
        return _FunctionSubject(opened)
    if isinstance(opened, Subject):
        return opened
    raise TypeError(
        f"{type(opened).__name__} is not a Subject (wirefault.subjects.subject): derive it from that"
    )


# Opens the subject for one run: what it needs (a client, a model) lives as long as the block.
SubjectFactory = Callable[[Configuration], AbstractContextManager[Subject]]


def crashed(error_type: str, error: str, error_class: ErrorClass = "agent") -> SubjectResult:
    """The result of an attempt that the subject's own failure ended; ``error`` in words."""
    return SubjectResult("exception", error_type=error_type, error=error, error_class=error_class)


def limit_reached(seconds: float) -> SubjectResult:
    """The result of an attempt that was ended since it took longer than that (``ATTEMPT_TIME``)."""
    return SubjectResult("limit", error_type="LimitReached", error=f"no answer within {seconds:g} s")
