"""What the runner asks of a subject, an agent under test, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from windtunnel.core.identity import Identity
from windtunnel.history.events import EndedBy, Event, Report
from windtunnel.links.topology import Topology
from windtunnel.settings.settings import Settings


@dataclass(frozen=True)
class AttemptContext:
    """One attempt as the subject sees it: who it is, where its links are, and where it records.

    The subject never sees the prompt's oracle.
    """

    identity: Identity
    settings: Settings
    topology: Topology
    record: Callable[[Event], object]


@dataclass(frozen=True)
class SubjectResult:
    """How the attempt ended. ``response`` is what a user would read; ``report`` what can be judged."""

    ended_by: EndedBy
    report: Report | None = None
    response: str = ""
    error_type: str | None = None
    error: str | None = None


class Subject(Protocol):
    """A callable that works on one prompt. What it raises counts as its crash."""

    @property
    def name(self) -> str:
        """For the summary, for example ``langchain agent, self-test subject: scripted model (diligent)``."""
        ...

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult: ...
