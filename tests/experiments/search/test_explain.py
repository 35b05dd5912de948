"""Which fault caused an outcome: agents that fail in the same way in each episode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wirefault.experiments.search.explain import Cause, next_cause_step
from wirefault.experiments.search.minimise import Ask, FaultNames, Terms

TERMS = Terms(0.9, 0.1, 0.1)


def explained(comes: Callable[[FaultNames], bool], terms: Terms = TERMS) -> Cause:
    outcomes: dict[FaultNames, list[bool]] = {}
    while isinstance(step := next_cause_step(list("abc"), terms, outcomes), Ask):
        outcomes.setdefault(step.faults, []).extend([comes(step.faults)] * step.episodes)
    return step


@pytest.mark.parametrize(
    ("comes", "faults", "state"),
    [
        (lambda names: "b" in names, "b", "one"),
        (lambda names: {"a", "c"} <= names, "ac", "together"),
        (lambda names: bool({"a", "c"} & names), "ac", "either"),
        (lambda _: True, "", "none"),
        (lambda _: False, "", "unknown"),
        (lambda names: len(names) > 1, "", "unknown"),
    ],
)
def test_cause_of_outcome(comes: Callable[[FaultNames], bool], faults: str, state: str) -> None:
    cause = explained(comes)
    assert ("".join(cause.faults), cause.state) == (faults, state)
    assert bool(cause.why) == (state == "unknown")


def test_outcome_that_comes_sometimes_cannot_be_told() -> None:
    outcomes: dict[FaultNames, list[bool]] = {}
    terms = Terms(0.9, 0.1, 0.1, cap=8)
    while isinstance(step := next_cause_step(list("abc"), terms, outcomes), Ask):
        outcomes.setdefault(step.faults, []).append(len(outcomes.get(step.faults, ())) % 2 == 0)
    assert step.state == "unknown" and "again" in step.why
