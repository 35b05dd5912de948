"""The protocol of all episode checks: statements, assertions and finding rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from wirefault.history.judged_events import Severity

_Subject = TypeVar("_Subject", contravariant=True)


@dataclass(frozen=True)
class Observation:
    """A problem in an episode: one sentence, and the ids of the events that show it."""

    text: str
    evidence: tuple[str, ...]
    severity: Severity | None = None  # None: the rule's severity
    headline: str = ""  # empty: the rule's


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of a check. ``passed`` is None if unknown, with the reason in ``message``.

    ``applies`` is False if the check had nothing to judge, such as retry spacing without retries.
    ``measured`` and ``expected`` are for people; ``evidence`` has event ids such as ``RUN/gateway-0:17``.
    The result of a finding rule has one of ``observations`` for each finding.
    """

    passed: bool | None
    name: str = ""
    measured: str = ""
    expected: str = ""
    message: str = ""
    evidence: tuple[str, ...] = ()
    applies: bool = True
    observations: tuple[Observation, ...] = ()


class Checker(Protocol[_Subject]):
    """Checks one episode, by its trace or by its view."""

    @property
    def name(self) -> str:
        """The name in experiments and findings."""
        ...

    @property
    def expected(self) -> str:
        """The expected behaviour, for people."""
        ...

    def check(self, subject: _Subject, /) -> CheckResult:
        """Check the episode. A pure function."""
        ...
