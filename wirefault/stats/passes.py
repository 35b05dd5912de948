"""Repeated tries at the same prompts: pass@k, pass^k and consistency. Pure.

pass@k is the chance that at least one of k tries succeeds, pass^k the chance that all do. The estimates are
unbiased (M. Chen et al., "Evaluating Large Language Models Trained on Code", 2021; S. Yao et al.,
"tau-bench", 2024). The intervals cover at least at their confidence, whatever the prompts' rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wirefault.stats.exact import clopper_pearson

CONFIDENCE = 0.9


@dataclass(frozen=True)
class Tries:
    """The judged tries of one prompt."""

    successes: int
    n: int


@dataclass(frozen=True)
class PassRate:
    """An estimate over prompts, with its interval."""

    value: float
    low: float
    high: float
    prompts: int
    """Prompts with enough tries."""


def pass_all(prompts: Sequence[Tries], k: int, confidence: float = CONFIDENCE) -> PassRate | None:
    """Return pass^k, the mean chance that k tries at a prompt all succeed.

    Prompts with fewer than ``k`` tries are left out; None if that leaves none. The mean of p^k is at least
    the k-th power of the mean (Jensen), which gives the lower limit; the upper is the better of the mean of
    the prompts' own limits and the limit of the mean rate, which share the error.
    """
    _check(k)
    enough = [each for each in prompts if each.n >= k]
    if not enough:
        return None
    value = math.fsum(math.comb(each.successes, k) / math.comb(each.n, k) for each in enough) / len(enough)
    low = _pooled(enough, confidence)[0] ** k
    if len(enough) == 1:
        high = _pooled(enough, confidence)[1] ** k
    else:
        half = (1 + confidence) / 2
        each_confidence = 1 - (1 - half) / len(enough)
        own = [_limits(each.successes, each.n, each_confidence)[1] ** k for each in enough]
        high = min(_pooled(enough, half)[1], math.fsum(own) / len(own))
    return PassRate(value, min(low, value), max(high, value), len(enough))


def pass_any(prompts: Sequence[Tries], k: int, confidence: float = CONFIDENCE) -> PassRate | None:
    """Return pass@k, the mean chance that at least one of k tries at a prompt succeeds; see ``pass_all``."""
    failures = pass_all([Tries(each.n - each.successes, each.n) for each in prompts], k, confidence)
    if failures is None:
        return None
    return PassRate(1 - failures.value, 1 - failures.high, 1 - failures.low, failures.prompts)


def consistency(prompts: Sequence[Tries]) -> float | None:
    """Return the chance that two tries at a prompt both succeed or both do not; None without pairs."""
    pairs = [each for each in prompts if each.n >= 2]
    if not pairs:
        return None
    alike = [
        (math.comb(each.successes, 2) + math.comb(each.n - each.successes, 2)) / math.comb(each.n, 2)
        for each in pairs
    ]
    return math.fsum(alike) / len(alike)


def _check(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")


def _pooled(prompts: Sequence[Tries], confidence: float) -> tuple[float, float]:
    """Return the interval of the mean rate over prompts, from as many tries of each.

    With unequal numbers the mean of the prompts is not the rate of all tries, so each prompt counts with as
    many tries as the one with the fewest.
    """
    fewest = min(each.n for each in prompts)
    expected = math.fsum(each.successes / each.n * fewest for each in prompts)
    n = fewest * len(prompts)
    return _limits(math.floor(expected + 1e-9), n, confidence)[0], _limits(
        math.ceil(expected - 1e-9), n, confidence
    )[1]


def _limits(k: int, n: int, confidence: float) -> tuple[float, float]:
    return clopper_pearson(k, n, confidence) or (0.0, 1.0)
