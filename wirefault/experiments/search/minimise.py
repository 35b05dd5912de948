"""The smallest set of faults with which an agent still fails: delta debugging with sequential tests. Pure.

A set is tested by repeated episodes. Its failures are followed by a likelihood ratio of two rates: at the
lower one and below a set *passes*, at the higher one and above it *fails* (A. Wald, "Sequential Tests of
Statistical Hypotheses", Annals of Mathematical Statistics 16 (1945), 117-186). The ratio is a
supermartingale for every rate on the wrong side, so a decision is wrong with a probability of at most
``error`` / ``decisions`` (Ville's inequality), and any of them with a probability of at most ``error``. Rates
between the two are decided either way.

The reduction is ddmin (A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28 (2002), 183-200): its result fails, and passes without any one of its
faults, also where faults hide each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

FaultNames = frozenset[str]
# the episodes of each tested set, in their order: whether each failed
Outcomes = Mapping[FaultNames, Sequence[bool]]


@dataclass(frozen=True)
class Terms:
    """When a set fails and when it passes."""

    fails_at: float = 0.6
    """The rate of failures from which on a set fails."""
    passes_at: float = 0.2
    """The rate up to which it passes."""
    error: float = 0.05
    """Bound on the probability that any decision is wrong."""
    decisions: int = 48
    """Sets that are decided at most."""
    cap: int = 200
    """Episodes of one set at most."""

    def __post_init__(self) -> None:
        if not 0 < self.passes_at < self.fails_at < 1:
            raise ValueError("needs 0 < passes_at < fails_at < 1")
        if not 0 < self.error < 1 or self.decisions < 1 or self.cap < 1:
            raise ValueError("needs 0 < error < 1, and at least one decision and one episode")

    @property
    def needed(self) -> float:
        """The logarithm of the likelihood ratio that decides."""
        return math.log(self.decisions / self.error)

    @property
    def if_failed(self) -> float:
        """The increment of the logarithm for a failed episode."""
        return math.log(self.fails_at / self.passes_at)

    @property
    def if_passed(self) -> float:
        return math.log((1 - self.fails_at) / (1 - self.passes_at))


def decide(outcomes: Sequence[bool], terms: Terms) -> bool | None:
    """Return whether the set fails; None while that is open. Outcomes after the decision do not count."""
    ratio = _ratio(outcomes, terms)
    return ratio > 0 if abs(ratio) >= terms.needed else None


def _ratio(outcomes: Sequence[bool], terms: Terms) -> float:
    """The logarithm of the likelihood ratio when it decided first, else after all outcomes."""
    ratio = 0.0
    for failed in outcomes:
        ratio += terms.if_failed if failed else terms.if_passed
        if abs(ratio) >= terms.needed:
            break
    return ratio


def fewest_left(outcomes: Sequence[bool], terms: Terms) -> int:
    """Return how many further episodes an open decision takes at least."""
    ratio = _ratio(outcomes, terms)
    to_fail = (terms.needed - ratio) / terms.if_failed
    to_pass = (terms.needed + ratio) / -terms.if_passed
    return max(1, math.ceil(min(to_fail, to_pass)))


@dataclass(frozen=True)
class Ask:
    """The next ``episodes`` must be ones with these faults; fewer decide nothing."""

    faults: FaultNames
    episodes: int = 1


@dataclass(frozen=True)
class Smallest:
    """The result of a search."""

    faults: tuple[str, ...]
    """The smallest failing set that was reached, in the order of the experiment."""
    state: str
    """``minimal``; ``passes``: not even all faults together fail; ``fails without``: it fails without any;
    ``undecided``: a set's rate lies between, or too many sets were decided, so a smaller one may fail."""
    decided: Mapping[FaultNames, bool | None] = field(default_factory=dict)
    """Each tested set, and whether it fails; None: undecided."""


class _Open(Exception):
    """A set is to be tried before the search can continue."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask


def next_step(faults: Sequence[str], terms: Terms, outcomes: Outcomes) -> Ask | Smallest:
    """Return the next set to try, or the result, by the outcomes until now. The order of faults counts."""
    decided: dict[FaultNames, bool | None] = {}

    def fails(names: Sequence[str]) -> bool | None:
        """Whether these faults fail. Raises ``_Open``."""
        key = frozenset(names)
        if key not in decided:
            if len(decided) >= terms.decisions:
                return None
            recorded = outcomes.get(key, ())
            decision = decide(recorded, terms)
            if decision is None and len(recorded) < terms.cap:
                raise _Open(Ask(key, min(fewest_left(recorded, terms), terms.cap - len(recorded))))
            decided[key] = decision
        return decided[key]

    try:
        whole, without = fails(faults), fails(())
        if whole is not True or without is not False:
            state = "passes" if whole is False else "fails without" if without else "undecided"
            return Smallest(tuple(faults), state, decided)
        smallest = _ddmin(list(faults), fails)
    except _Open as undecided:
        return undecided.ask
    is_minimal = all(decided.get(frozenset(smallest) - {name}) is False for name in smallest)
    return Smallest(tuple(smallest), "minimal" if is_minimal else "undecided", decided)


def _ddmin(faults: list[str], fails: Callable[[Sequence[str]], bool | None]) -> list[str]:
    """Return a failing subset none of whose faults can be left out alone."""
    parts = 2
    while len(faults) > 1:
        pieces = list(_pieces(faults, parts))
        if (piece := next((each for each in pieces if fails(each)), None)) is not None:
            faults, parts = piece, 2
            continue
        rests = ([name for name in faults if name not in piece] for piece in pieces)
        if parts > 2 and (rest := next((each for each in rests if fails(each)), None)) is not None:
            faults, parts = rest, max(parts - 1, 2)
            continue
        if parts == len(faults):
            break
        parts = min(2 * parts, len(faults))
    return faults


def _pieces(faults: Sequence[str], parts: int) -> Iterator[list[str]]:
    """Cut into that many pieces of nearly equal length."""
    size, rest = divmod(len(faults), parts)
    at = 0
    for place in range(parts):
        end = at + size + (place < rest)
        yield list(faults[at:end])
        at = end
