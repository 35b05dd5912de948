"""Searches over simulated agents whose limit and whose failing faults are known.

``python -m bench.search [searches]`` prints the figures of docs/search.md (2,000 searches for a limit and 500
for a set by default). Seeds are fixed, so the same version prints the same figures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from random import Random
from statistics import mean, stdev

from wirefault.experiments.search.limit import Limit, LimitSearch, Tally
from wirefault.experiments.search.minimise import Ask, FaultNames, Terms, next_step

LIMIT, SLOPE = 10.0, 0.5
"""Of an agent that fails with probability expit(SLOPE (dose - LIMIT))."""
DOSES = [float(dose) for dose in range(1, 21)]
FAULTS = [f"fault-{number}" for number in range(1, 13)]
FAILING, PASSING = 0.7, 0.1
"""Failures with both faults of a pair, and without one of them."""


def search_limit(seed: int, limit: float = LIMIT, cap: int = 40) -> Limit:
    """Search the limit of a logistic agent."""
    chance, search = Random(f"limit {seed}"), LimitSearch(DOSES, cap=cap)
    tallies: dict[float, Tally] = {}
    while (dose := search.next_dose(tallies)) is not None:
        succeeded = chance.random() >= 1 / (1 + math.exp(-SLOPE * (dose - limit)))
        before = tallies.get(dose, Tally(0, 0))
        tallies[dose] = Tally(before.successes + succeeded, before.trials + 1)
    return search.result(tallies)


def bisected_limit(seed: int) -> float:
    """Bisect between the doses with one trial each, as tools without a model do."""
    chance, low, high = Random(f"bisection {seed}"), DOSES[0], DOSES[-1]
    while high - low > 1:
        middle = math.floor((low + high) / 2)
        failed = chance.random() < 1 / (1 + math.exp(-SLOPE * (middle - LIMIT)))
        low, high = (low, middle) if failed else (middle, high)
    return (low + high) / 2


def search_pair(seed: int, faults: Sequence[str] = FAULTS) -> tuple[bool, int]:
    """Search a failing pair; whether exactly it was found, and the episodes that it took."""
    chance, terms = Random(f"pair {seed}"), Terms()
    pair = frozenset(chance.sample(faults, 2))
    outcomes: dict[FaultNames, list[bool]] = {}
    while isinstance(step := next_step(faults, terms, outcomes), Ask):
        rate = FAILING if pair <= step.faults else PASSING
        outcomes.setdefault(step.faults, []).extend(chance.random() < rate for _ in range(step.episodes))
    return frozenset(step.faults) == pair, sum(map(len, outcomes.values()))


def measure_searches(limits: int = 2000, pairs: int = 500) -> dict[str, float]:
    """Return the figures by name."""
    results = [search_limit(seed) for seed in range(limits)]
    exact, episodes = zip(*(search_pair(seed) for seed in range(pairs)), strict=True)
    return {
        "limit: standard deviation": stdev(each.median for each in results),
        "limit: coverage": mean(each.low <= LIMIT <= each.high for each in results),
        "limit: width of the interval": mean(each.high - each.low for each in results),
        "limit: called not monotone": mean(each.rise is not None for each in results),
        "bisection: standard deviation": stdev(map(bisected_limit, range(limits))),
        "pair: exact": mean(exact),
        "pair: episodes": mean(episodes),
    }


if __name__ == "__main__":
    many = [int(word) for word in sys.argv[1:2]]
    for name, figure in measure_searches(*(many * 2)).items():
        print(f"{name}: {figure:.3f}")
