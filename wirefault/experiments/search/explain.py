"""Which fault caused an episode's outcome: repeat it without each fault in turn. Pure.

The episode is repeated with the same draws for the faults that are left. Agents are not deterministic, so
each set of faults is repeated until a sequential test decides whether the outcome comes with it; see
``minimise``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wirefault.experiments.search.minimise import Ask, FaultNames, Outcomes, Terms, decide, fewest_left


@dataclass(frozen=True)
class Cause:
    """The answer to which fault caused the outcome."""

    faults: tuple[str, ...]
    """The faults that caused it; empty where none did, or where that cannot be told."""
    state: str
    """``one``; ``together``: each of several is needed; ``either``: without each alone it comes, since
    others are enough; ``none``: it comes without any fault, too; ``unknown``: it cannot be told."""
    why: str = ""
    """Why it cannot be told."""
    decided: Mapping[FaultNames, bool | None] = field(default_factory=dict)
    """Whether the outcome comes with each set; None: undecided."""


def next_cause_step(faults: Sequence[str], terms: Terms, outcomes: Outcomes) -> Ask | Cause:
    """Return the next set to repeat the episode with, or the answer; ``outcomes``: whether it came again."""
    whole = frozenset(faults)
    first = [whole, frozenset[str]()]
    rests = {name: whole - {name} for name in faults}
    alone = {name: frozenset((name,)) for name in faults}
    decided: dict[FaultNames, bool | None] = {}

    def ask(names: FaultNames) -> Ask | None:
        """The episodes that the set still needs."""
        recorded = outcomes.get(names, ())
        decided[names] = decide(recorded, terms)
        if decided[names] is None and len(recorded) < terms.cap:
            return Ask(names, min(fewest_left(recorded, terms), terms.cap - len(recorded)))
        return None

    for names in first:
        if (step := ask(names)) is not None:
            return step
        if names == whole and decided[names] is not True:
            why = "with all its faults the outcome did not come again often enough"
            return Cause((), "unknown", why, decided)
        if not names and decided[names] is not False:
            state = "none" if decided[names] else "unknown"
            return Cause((), state, "" if decided[names] else _BETWEEN.format("no fault"), decided)
    for names in rests.values():
        if (step := ask(names)) is not None:
            return step
    needed = tuple(name for name, names in rests.items() if decided[names] is False)
    open_ = [name for name, names in rests.items() if decided[names] is None]
    if open_:
        return Cause(needed, "unknown", _BETWEEN.format(f"the others than {open_[0]}"), decided)
    if needed:
        return Cause(needed, "one" if len(needed) == 1 else "together", "", decided)
    for names in alone.values():
        if (step := ask(names)) is not None:
            return step
    enough = tuple(name for name, names in alone.items() if decided[names])
    if len(enough) > 1:
        return Cause(enough, "either", "", decided)
    why = "no single fault is needed, and fewer than two are enough alone: wirefault search minimise"
    return Cause(enough, "unknown", why, decided)


_BETWEEN = "with {} the outcome comes sometimes: more episodes may decide (--cap)"
