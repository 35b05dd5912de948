"""The contract between a run and a subject, an agent under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Protocol, runtime_checkable

from wirefault.core.identity import Identity
from wirefault.history.events import EndedBy, ErrorClass, Event, Level, Report
from wirefault.judging.metrics import Metrics, metrics_so_far
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.killing import LabFailed as LabFailed
from wirefault.subjects.killing import SubjectKills
from wirefault.wiring.topology import Topology

# One message of a conversation: ``{"role": "user", "content": text}``, or ``assistant``.
ChatMessage = dict[str, str]
# Makes the user's next turn, None for no more. Raises ``LabFailed``.
MakeTurn = Callable[[list[ChatMessage]], str | None]


@dataclass(frozen=True)
class AttemptContext:
    """One attempt, as the subject sees it: everything but the prompt's oracle."""

    # makes the headers of its requests
    identity: Identity
    settings: Settings
    # ``proxies`` has the address of each link
    topology: Topology
    # writes an event (such as ``ToolTry``) to the history
    record: Callable[[Event], object]
    # the turns of a conversation; empty for a single prompt
    turns: tuple[str, ...] = ()
    # Call it with the number, from 1, and the text of each turn before sending it; turn 1 is optional.
    # Returns once that turn's faults are in force. Raises ``LabFailed``.
    begin_turn: Callable[[int, str], object] = lambda _number, _text: None
    # makes further turns from the conversation so far
    make_turn: MakeTurn | None = None
    # Which spent budget ends the attempt, in words; empty if none. A subject may check it and end early;
    # others are ended.
    budget_spent: Callable[[], str] = str
    # when it began, in seconds since the epoch
    started: float = field(default_factory=time.time)
    # the gateway's history of the run
    gateway: Path = Path()
    # the faults that kill the subject; None without any
    kills: SubjectKills | None = None
    # bytes that the subject's process may take during the attempt; 0: no limit
    memory_limit: int = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.time() - self.started

    @property
    def metrics(self) -> Metrics:
        """Calls, tokens, times and faults of the attempt so far."""
        return metrics_so_far(self.gateway, self.identity.episode, self.identity.attempt)


@dataclass(frozen=True)
class SubjectResult:
    """How an attempt ended."""

    ended_by: EndedBy
    # the part that can be judged
    report: Report | None = None
    # the text for a user
    response: str = ""
    error_type: str | None = None
    error: str | None = None
    # as in ``AttemptEnded``; None counts as the agent's own error, if there is one
    error_class: ErrorClass | None = None
    # one for each turn of a conversation
    answers: tuple[str, ...] = ()
    # when each answer arrived, in seconds since the epoch; None if not asked turn by turn
    turn_ends: tuple[float, ...] | None = None


@runtime_checkable
class Subject(Protocol):
    """An agent under test: called with a prompt, it makes one attempt at it.

    Exceptions count as its crash, except ``LabFailed``. A subclass inherits the defaults below and needs no
    more than a name and ``__call__``.
    """

    # in the summary, which adds the model that answered; empty: the class's name
    name: str = ""
    # command, service, http or python; empty for an object in the runner's own process
    kind: str = ""
    # whether it records every call and try; of any other, only the gateway's record is known
    keeps_record: bool = False
    # whether it takes further turns of a conversation
    holds_conversations: bool = False
    # shown to the user at the start of a run, for example how its connections are intercepted
    notes: Sequence[tuple[Level, str]] = ()

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult: ...

    def stop(self) -> None:
        """End its processes, if it has any; the next attempt starts them again."""
        return


class SubjectWrapper(Subject):
    """Wraps another subject, ``inner``, to add work around its calls."""

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


# Opens the subject for one run; its resources (a client, a model) live as long as the block.
SubjectFactory = Callable[[Configuration], AbstractContextManager[Subject]]


def crashed(error_type: str, error: str, error_class: ErrorClass = "agent") -> SubjectResult:
    """Return the result of an attempt that the subject's own failure ended; ``error`` in words."""
    return SubjectResult("exception", error_type=error_type, error=error, error_class=error_class)


def limit_reached(seconds: float) -> SubjectResult:
    """Return the result of an attempt that exceeded ``ATTEMPT_TIME``."""
    return SubjectResult("limit", error_type="LimitReached", error=f"no answer within {seconds:g} s")
