"""pass@k, pass^k and consistency of an arm as estimates, from the repeats of each prompt. Pure.

pass^3 >= 0.8     the chance that three tries at a prompt all succeed
pass@2 >= 0.9     the chance that at least one of two does
consistency >= 0.9   the chance that two tries at a prompt end alike
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wirefault.experiments.estimates import Outcomes, Population, prompt_of, smallest
from wirefault.experiments.expression import Bounds
from wirefault.stats.passes import PassRate, Tries, consistency, pass_all, pass_any

CONSISTENCY = "consistency"
MAX_K = 1000
_PASS = re.compile(r"pass([\^@])([1-9]\d*)")


def tries_needed(name: str) -> int:
    """Return how many tries at a prompt a measure of this module needs; 0 for any other name."""
    if name == CONSISTENCY:
        return 2
    match = _PASS.fullmatch(name)
    return int(match[2]) if match and int(match[2]) <= MAX_K else 0


@dataclass(frozen=True)
class OverTries:
    """One of these measures, over the prompts with enough tries.

    Open episodes fail at the low end and succeed at the high one. Episodes that were not run (``missing``)
    leave it open, since their prompts are unknown.
    """

    name: str
    outcomes: Outcomes
    population: Population = "these"
    missing: int = 0

    @property
    def n(self) -> int:
        """The tries at the prompts that have enough of them."""
        return sum(each.n for each in self._tries)

    @property
    def prompts(self) -> int:
        """The prompts that have enough tries."""
        return len(self._tries)

    @property
    def value(self) -> float | None:
        ends = self.ends
        return float(ends.low) if ends is not None and ends.low == ends.high else None

    @cached_property
    def ends(self) -> Bounds | None:
        """The figure, whatever the open episodes were; None without enough tries at any prompt."""
        if not self._tries:
            return None
        rate = self._rate(self._tries, _ANY_ERROR)
        return Bounds(0, 1) if self.missing else Bounds(rate.value, rate.highest)

    def interval(self, error: float) -> Bounds:
        """The interval; the methods are in ``wirefault.stats.passes``."""
        if self.missing or not self._tries:
            return Bounds(0, 1)
        rate = self._rate(self._tries, error)
        return Bounds(rate.low, rate.high)

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        """The tries at these prompts, or at as many more like these, at which these figures would decide."""
        if self.value is None or self.value == threshold:
            return None

        def decides(times: int) -> bool:
            scaled = self._tries * times
            if self.population == "these":
                scaled = [Tries(each.successes * times, each.n * times) for each in self._tries]
            rate = self._rate(scaled, error)
            return rate.low >= threshold or rate.high <= threshold

        times = smallest(decides, 1, _MAX_TIMES)
        return times and times * self.n

    @cached_property
    def _tries(self) -> list[Tries]:
        """The tries at each prompt that has enough of them."""
        prompts: dict[str, list[bool | None]] = {}
        for key, outcome in self.outcomes.items():
            prompts.setdefault(prompt_of(key), []).append(outcome)
        enough = (each for each in prompts.values() if len(each) >= tries_needed(self.name))
        return [Tries(each.count(True), len(each), each.count(None)) for each in enough]

    def _rate(self, tries: Sequence[Tries], error: float) -> PassRate:
        sure, like_these = 1 - 2 * error, self.population == "like_these"
        if self.name == CONSISTENCY:
            rate = consistency(tries, sure, like_these=like_these)
        else:
            of_tries = pass_all if self.name.startswith("pass^") else pass_any
            rate = of_tries(tries, tries_needed(self.name), sure, like_these=like_these)
        assert rate is not None  # each has enough
        return rate


_MAX_TIMES = 10_000
_ANY_ERROR = 0.05
