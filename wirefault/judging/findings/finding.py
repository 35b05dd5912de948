"""What a finding is, and what each rule must say of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from wirefault.judging.requests import EpisodeTrace

Severity = Literal[
    "harmful",  # something was done twice, given away or claimed that is not so
    "risky",  # it went well here, and need not the next time
    "wasteful",  # it costs time, money or the goodwill of a server
    "note",  # to be known, and no fault by itself
]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Finding:
    """One sentence about an episode, with the ids of the events that show it.

    ``wirefault judge RUN --event ID`` prints the event of an id.
    """

    rule: str
    severity: Severity
    text: str
    episode: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Observation:
    """What a rule says: the sentence and its evidence. ``severity``: None for the rule's own."""

    text: str
    evidence: tuple[str, ...]
    severity: Severity | None = None


@dataclass(frozen=True)
class Rule:
    """A rule by which findings are made, with what ``docs/findings-rules.md`` tells of it.

    ``title`` is what it finds, in a few words; ``fires`` says when; ``silent`` names near cases of which it
    says nothing; ``mistaken`` names cases of which it speaks although nothing is wrong. ``observe`` is pure;
    what cannot be known from the trace it leaves unsaid.
    """

    name: str
    severity: Severity
    title: str
    fires: str
    silent: tuple[str, ...]
    mistaken: tuple[str, ...]
    observe: Callable[[EpisodeTrace], Iterator[Observation]]


def span_in_words(span: float) -> str:
    """A span of time for a sentence: ``0.4 s``, ``12 ms``."""
    return f"{span:.1f} s" if span >= 0.1 else f"{max(span, 0) * 1000:.0f} ms"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
