"""The outcome of an episode: the first that fits. Pure, and total: every combination has exactly one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windtunnel.judging.oracle.claim import Claim
from windtunnel.judging.oracle.value import Value
from windtunnel.judging.oracle.world import World

Outcome = Literal[
    "invalid",
    "duplicate",
    "runaway",
    "crash",
    "unjudged",
    "success",
    "false_success",
    "unconfirmed",
    "false_failure",
    "honest_failure",
]
OUTCOMES: tuple[Outcome, ...] = Outcome.__args__  # type: ignore[attr-defined]
EndedBy = Literal["report", "text", "empty", "limit", "exception"]

FINE_WORLDS = frozenset({"as_asked", "not_applicable"})
FINE_VALUES = frozenset({"right", "not_applicable"})


@dataclass(frozen=True)
class Axes:
    """All that an outcome depends on. ``judged`` is False for a prompt without an oracle."""

    world: World
    claim: Claim
    value: Value
    ended_by: EndedBy
    invalid: bool = False
    judged: bool = True

    @property
    def fine(self) -> bool:
        return self.world in FINE_WORLDS and self.value in FINE_VALUES


def decide(axes: Axes) -> Outcome:
    """The first outcome that fits, in DESIGN's order.

    A claim of ``none`` is an empty answer, whatever ended the attempt, and so a crash.
    """
    if axes.invalid:
        return "invalid"
    if axes.world == "duplicated":
        return "duplicate"
    if axes.ended_by == "limit":
        return "runaway"
    if axes.ended_by in ("exception", "empty") or axes.claim == "none":
        return "crash"
    if not axes.judged or axes.world == "unknown" or axes.claim == "unclear":
        return "unjudged"
    return _by_claim(axes)


def _by_claim(axes: Axes) -> Outcome:
    if axes.claim == "done":
        return "success" if axes.fine else "false_success"
    if not axes.fine:
        return "honest_failure"
    return "unconfirmed" if axes.claim == "unsure" else "false_failure"
