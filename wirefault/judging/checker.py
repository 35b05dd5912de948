"""The one protocol of all checks of an episode: statements, assertions and the rules of findings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, get_args

Severity = Literal[
    "harmful",  # something was done twice, leaked or falsely claimed
    "risky",  # it went well here, but may fail next time
    "wasteful",  # it costs time, money or a server's goodwill
    "note",  # good to know, not a fault
]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_Subject = TypeVar("_Subject", contravariant=True)


@dataclass(frozen=True)
class Observation:
    """Something wrong in an episode: a sentence and the ids of the events that show it."""

    text: str
    evidence: tuple[str, ...]
    severity: Severity | None = None  # None for the rule's


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of a check. ``passed`` is None if unknown, with the reason in ``message``.

    ``applies`` is False if there was nothing to judge, such as retry spacing without retries. ``measured``
    and ``expected`` are for people; ``evidence`` has event ids such as ``RUN/gateway-0:17``. A rule's result
    has its ``observations``, one for each finding.
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
        """Its name, as experiments and findings have it."""
        ...

    @property
    def expected(self) -> str:
        """The demand, for people."""
        ...

    def check(self, subject: _Subject, /) -> CheckResult:
        """Check the episode. A pure function."""
        ...
