"""Estimates with intervals: the rate of success, and its loss from one arm to another. Pure.

Each ``interval(error)`` contains the truth except with that error on each side. Open episodes widen it at
both ends: the low end counts them one way, the high end the other. ``needed`` is the n at which the same
estimate would decide a comparison.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Literal, Protocol

from wirefault.experiments.expression import Bounds
from wirefault.stats.bootstrap import MIN_SEEN
from wirefault.stats.exact import (
    clustered_rate,
    effective_size,
    exact_high,
    exact_low,
    worse_by_chance,
)
from wirefault.stats.rates import paired_interval

Population = Literal["these", "like_these"]
_REPETITION = re.compile(r"\.r\d+$")  # suffix of the key of a repeated prompt
_MAX_NEEDED = 10_000_000


@dataclass(frozen=True)
class Terms:
    """The population and the confidence of an experiment's intervals."""

    confidence: float = 0.9
    population: Population = "these"

    @property
    def error(self) -> float:
        """The error on each side."""
        return (1 - self.confidence) / 2


def prompt_of(episode: str) -> str:
    """The key of the episode's prompt, without the repetition."""
    return _REPETITION.sub("", episode)


def cluster_key(episode: str, population: Population) -> str:
    """The key of the episode's cluster: the episode, or its prompt for other episodes like these."""
    return episode if population == "these" else prompt_of(episode)


class Estimate(Protocol):
    """An estimate from episodes."""

    @property
    def value(self) -> float | None:
        """The point estimate; None if it has no single value."""
        ...

    @property
    def n(self) -> int:
        """The episodes or other units behind it."""
        ...

    def interval(self, error: float) -> Bounds:
        """The interval with this error on each side."""
        ...

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        """The n at which this estimate would decide; None if none would."""
        ...


Outcomes = Mapping[str, bool | None]  # by episode; None while open


@dataclass(frozen=True)
class Rate:
    """A success rate over the planned episodes. ``missing``: episodes that were not run."""

    outcomes: Outcomes
    population: Population = "these"
    missing: int = 0

    @property
    def n(self) -> int:
        return len(self.outcomes) + self.missing

    @property
    def units(self) -> int:
        """The episodes, or the prompts for other episodes like these."""
        if self.population == "these":
            return self.n
        return len({prompt_of(key) for key in self.outcomes}) + self.missing

    @property
    def successes(self) -> int:
        return sum(outcome is True for outcome in self.outcomes.values())

    @property
    def open(self) -> int:
        """The episodes that could be either."""
        return self.missing + sum(outcome is None for outcome in self.outcomes.values())

    @property
    def value(self) -> float | None:
        return self.successes / self.n if self.n and not self.open else None

    def interval(self, error: float) -> Bounds:
        if self.population == "these":
            low = exact_low(self.successes, self.n, error)
            return Bounds(low, exact_high(self.successes + self.open, self.n, error))
        ends = [clustered_rate(list(self._clusters(open_as)), error) for open_as in (False, True)]
        return Bounds(ends[0][0], ends[1][1])

    def _clusters(self, open_as: bool) -> Iterator[tuple[int, int]]:
        prompts: defaultdict[str, list[bool]] = defaultdict(list)
        for key, outcome in self.outcomes.items():
            prompts[prompt_of(key)].append(open_as if outcome is None else outcome)
        for outcomes in prompts.values():
            yield sum(outcomes), len(outcomes)
        for _ in range(self.missing):
            yield int(open_as), 1

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        if self.open or not self.n:
            return None
        return needed_for_rate(self.successes / self.n, threshold, error, self.n)


def needed_for_rate(rate: float, threshold: float, error: float, n: int = 1) -> int | None:
    """The smallest n, from ``n``, whose exact interval of this rate excludes the threshold."""
    if rate == threshold:
        return None
    if rate > threshold:
        return smallest(lambda n: exact_low(math.floor(rate * n + 1e-9), n, error) >= threshold, n)
    return smallest(lambda n: exact_high(math.ceil(rate * n - 1e-9), n, error) <= threshold, n)


def smallest(decides: Callable[[int], bool], start: int, limit: int = _MAX_NEEDED) -> int | None:
    """Return the smallest number from ``start`` on that decides; None above ``limit``."""
    low, high = max(start, 1) - 1, max(start, 1)
    while not decides(high):
        low, high = high, 2 * high
        if high > limit:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class RateOfParts:
    """A rate over parts of episodes, such as failures that were recovered: (parts, of all), by episode.

    An episode is a cluster, or a prompt for other episodes like these. ``open``: parts that could be either.
    """

    parts: Mapping[str, tuple[int, int, int]]  # successes, open ones, all
    population: Population = "these"

    @property
    def n(self) -> int:
        return sum(total for _, _, total in self.parts.values())

    @property
    def value(self) -> float | None:
        if not self.n or any(unknown for _, unknown, _ in self.parts.values()):
            return None
        return sum(successes for successes, _, _ in self.parts.values()) / self.n

    def interval(self, error: float) -> Bounds:
        ends = [
            clustered_rate(list(self._clusters(with_open)), error, min_mixed=MIN_SEEN) for with_open in (0, 1)
        ]
        return Bounds(ends[0][0], ends[1][1])

    def _clusters(self, with_open: int) -> Iterator[tuple[int, int]]:
        clusters: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for key, (successes, unknown, total) in self.parts.items():
            if total:
                name = cluster_key(key, self.population)
                before = clusters[name]
                clusters[name] = before[0] + successes + with_open * unknown, before[1] + total
        return iter(clusters.values())

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        return None if self.value is None else needed_for_rate(self.value, threshold, error, self.n)


@dataclass(frozen=True)
class PairedLoss:
    """The loss of success rate from one arm to another, paired by prompt and repetition."""

    before: Outcomes
    after: Outcomes
    population: Population = "these"

    @cached_property
    def _pairs(self) -> Mapping[str, tuple[bool | None, bool | None]]:
        return {key: (self.before[key], after) for key, after in self.after.items() if key in self.before}

    @property
    def n(self) -> int:
        return len(self._pairs)

    @property
    def is_open(self) -> bool:
        return any(None in pair for pair in self._pairs.values())

    @property
    def value(self) -> float | None:
        if not self.n or self.is_open:
            return None
        pairs = self._pairs.values()
        return sum(bool(before) - bool(after) for before, after in pairs) / self.n

    @property
    def bounds(self) -> Bounds | None:
        """The loss in these episodes, whatever the open ones were."""
        if not self.n:
            return None
        pairs = self._pairs.values()
        low = sum((before is True) - (after is not False) for before, after in pairs)
        high = sum((before is not False) - (after is True) for before, after in pairs)
        return Bounds(Fraction(low, self.n), Fraction(high, self.n))

    def interval(self, error: float) -> Bounds:
        if not self.n:
            return Bounds(-1, 1)
        intervals = [self._closed_interval(pairs, error) for pairs in self._completions()]
        return Bounds(min(low for low, _ in intervals), max(high for _, high in intervals))

    def _completions(self) -> Iterator[Mapping[str, tuple[bool, bool]]]:
        """The pairs with the open ones filled in, alike within each kind: the ends are among these."""
        kinds = sorted({pair for pair in self._pairs.values() if None in pair}, key=repr)
        choices = [[_filled(kind, *fill) for fill in product((False, True), repeat=2)] for kind in kinds]
        for chosen in product(*(dict.fromkeys(options) for options in choices)):
            filled = dict(zip(kinds, chosen, strict=True))
            yield {key: filled.get(pair) or _filled(pair, False, False) for key, pair in self._pairs.items()}

    def _closed_interval(self, pairs: Mapping[str, tuple[bool, bool]], error: float) -> tuple[float, float]:
        values = list(pairs.values())
        lost, won = (float(values.count(each)) for each in _DISCORDANT)
        discordant, n = (lost, won), float(len(values))
        if self.population == "like_these":
            clusters: defaultdict[str, list[int]] = defaultdict(list)
            for key, (before, after) in pairs.items():
                clusters[prompt_of(key)].append(before - after)
            if len(clusters) < len(values):
                if len(clusters) < 2:
                    return -1.0, 1.0
                lost, won = (float(sum(s * sum(c) > 0 for c in clusters.values())) for s in (1, -1))
                n = self._effective(list(clusters.values()), error)
                discordant = discordant[0] * n / len(values), discordant[1] * n / len(values)
        low, high = paired_interval(*discordant, n, 1 - 2 * error)  # of the second minus the first
        if min(worse_by_chance(lost, won), worse_by_chance(won, lost)) > error:
            low, high = min(low, 0.0), max(high, 0.0)
        return -high, -low

    @staticmethod
    def _effective(clusters: Sequence[Sequence[int]], error: float) -> float:
        values = [value for cluster in clusters for value in cluster]
        mean = sum(values) / len(values)
        variance = sum(value * value for value in values) / len(values) - mean * mean
        residuals = [(sum(cluster) - mean * len(cluster), len(cluster)) for cluster in clusters]
        return effective_size(residuals, variance, error)

    def chance_of_worse(self) -> float:
        """The exact McNemar probability of such a loss by chance; open pairs count against a loss."""
        perhaps_won = sum(b is not True and a is not False for b, a in self._pairs.values())
        return max(worse_by_chance(self.lost, won) for won in (self.won, perhaps_won))

    @property
    def lost(self) -> int:
        """The pairs that succeeded before alone."""
        return list(self._pairs.values()).count((True, False))

    @property
    def won(self) -> int:
        """The pairs that succeeded afterwards alone."""
        return list(self._pairs.values()).count((False, True))

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        if self.value is None or self.value == threshold:
            return None
        shares = self.lost / self.n, self.won / self.n
        return smallest(lambda n: _excludes(shares, n, threshold, error), self.n)


def _excludes(shares: tuple[float, float], n: int, threshold: float, error: float) -> bool:
    """Whether these shares of pairs that were lost and won exclude a loss of ``threshold``."""
    low, high = paired_interval(shares[0] * n, shares[1] * n, n, 1 - 2 * error)
    return -low <= threshold if shares[0] - shares[1] < threshold else -high >= threshold


_DISCORDANT = ((True, False), (False, True))


def _filled(pair: tuple[bool | None, bool | None], before: bool, after: bool) -> tuple[bool, bool]:
    return before if pair[0] is None else pair[0], after if pair[1] is None else pair[1]
