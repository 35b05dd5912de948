"""Repeated tries at the same prompts: pass@k, pass^k and consistency. Pure.

pass@k is the chance that at least one of k tries succeeds, pass^k the chance that all do. The estimates are
unbiased (M. Chen et al., "Evaluating Large Language Models Trained on Code", 2021; S. Yao et al.,
"tau-bench", 2024). The intervals for these prompts cover at least at their confidence, whatever the prompts'
rates. The intervals for other prompts like these are Clopper-Pearson's with the sum of the prompts' estimates
as the number of successes: a value between 0 and 1 varies less than a success with the same mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from wirefault.stats.exact import clopper_pearson, exact_high, exact_low

CONFIDENCE = 0.9


@dataclass(frozen=True)
class Tries:
    """The tries at one prompt. ``open``: tries besides the ``successes`` that may have succeeded."""

    successes: int
    n: int
    open: int = 0


@dataclass(frozen=True)
class PassRate:
    """An estimate over prompts, with its interval, which covers whatever the open tries were."""

    value: float
    """With open tries the lowest possible one."""
    low: float
    high: float
    prompts: int
    """Prompts with enough tries."""
    highest: float
    """The value that is highest with open tries."""


def pass_all(
    prompts: Sequence[Tries], k: int, confidence: float = CONFIDENCE, *, like_these: bool = False
) -> PassRate | None:
    """Return pass^k, the mean chance that k tries at a prompt all succeed.

    Prompts with fewer than ``k`` tries are left out; None if that leaves none. The mean of p^k is at least
    the k-th power of the mean (Jensen), which gives the lower limit; the upper is the better of the mean of
    the prompts' own limits and the limit of the mean rate, which share the error. ``like_these``: the mean
    over other prompts of the same source.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    enough = [each for each in prompts if each.n >= k]
    if not enough:
        return None
    least, most = (
        [math.comb(each.successes + with_open * each.open, k) / math.comb(each.n, k) for each in enough]
        for with_open in (0, 1)
    )
    if like_these:
        return _over_other_prompts(least, most, confidence)
    half = (1 + confidence) / 2
    low = _pooled(enough, confidence)[0] ** k
    if len(enough) == 1 or k == 1:
        high = _pooled(enough, confidence)[1] ** k
    else:
        own = math.fsum(top**k for _, top in _own_limits(enough, 1 - half)) / len(enough)
        high = min(_pooled(enough, half)[1], own)
    return _rate(least, most, low, high)


def pass_any(
    prompts: Sequence[Tries], k: int, confidence: float = CONFIDENCE, *, like_these: bool = False
) -> PassRate | None:
    """Return pass@k, the mean chance that at least one of k tries at a prompt succeeds; see ``pass_all``."""
    failed = [Tries(each.n - each.successes - each.open, each.n, each.open) for each in prompts]
    none = pass_all(failed, k, confidence, like_these=like_these)
    if none is None:
        return None
    return PassRate(1 - none.highest, 1 - none.high, 1 - none.low, none.prompts, 1 - none.value)


def consistency(
    prompts: Sequence[Tries], confidence: float = CONFIDENCE, *, like_these: bool = False
) -> PassRate | None:
    """Return the mean chance that two tries at a prompt both succeed or both do not; None without pairs.

    Of a prompt with the rate p it is p^2 + (1 - p)^2, which is convex: its mean is at least its value at the
    mean rate (Jensen). The lower limit is the better of that and the mean of the prompts' own limits, which
    share the error; the upper is the mean of their own.
    """
    pairs = [each for each in prompts if each.n >= 2]
    if not pairs:
        return None
    least, most = [], []
    for each in pairs:
        ends = [each.successes, each.successes + each.open]
        even = min(max(each.n // 2, ends[0]), ends[1])  # the most different ones
        alike = [(math.comb(k, 2) + math.comb(each.n - k, 2)) / math.comb(each.n, 2) for k in (*ends, even)]
        least.append(min(alike))
        most.append(max(alike))
    if like_these:
        return _over_other_prompts(least, most, confidence)
    half = (1 + confidence) / 2
    own = list(_own_limits(pairs, 1 - half))
    low = max(_least_alike(*_pooled(pairs, half)), math.fsum(_least_alike(*each) for each in own) / len(own))
    high = math.fsum(max(map(_alike, each)) for each in own) / len(own)
    return _rate(least, most, low, high)


def _alike(rate: float) -> float:
    return rate**2 + (1 - rate) ** 2


def _least_alike(low: float, high: float) -> float:
    return 0.5 if low <= 0.5 <= high else min(_alike(low), _alike(high))


def _rate(least: Sequence[float], most: Sequence[float], low: float, high: float) -> PassRate:
    """Return the rate of these estimates of prompts; its interval contains them."""
    values = [math.fsum(each) / len(each) for each in (least, most)]
    return PassRate(values[0], min(low, values[0]), max(high, values[1]), len(least), values[1])


def _over_other_prompts(least: Sequence[float], most: Sequence[float], confidence: float) -> PassRate:
    n, error = len(least), (1 - confidence) / 2
    if n < 2:
        return _rate(least, most, 0.0, 1.0)
    return _rate(least, most, exact_low(math.fsum(least), n, error), exact_high(math.fsum(most), n, error))


def _own_limits(prompts: Sequence[Tries], error: float) -> Iterator[tuple[float, float]]:
    """Yield the limits of each prompt's rate; all of them hold together except with this error."""
    confidence = 1 - error / len(prompts)
    for each in prompts:
        yield (
            _limits(each.successes, each.n, confidence)[0],
            _limits(each.successes + each.open, each.n, confidence)[1],
        )


def _pooled(prompts: Sequence[Tries], confidence: float) -> tuple[float, float]:
    """Return the interval of the mean rate over prompts, from as many tries of each.

    With unequal numbers the mean of the prompts is not the rate of all tries, so each prompt counts with as
    many tries as the one with the fewest.
    """
    fewest = min(each.n for each in prompts)
    low, high = (
        math.fsum((each.successes + with_open * each.open) / each.n * fewest for each in prompts)
        for with_open in (0, 1)
    )
    n = fewest * len(prompts)
    return (
        _limits(math.floor(low + 1e-9), n, confidence)[0],
        _limits(math.ceil(high - 1e-9), n, confidence)[1],
    )


@lru_cache(maxsize=4096)
def _limits(k: int, n: int, confidence: float) -> tuple[float, float]:
    return clopper_pearson(k, n, confidence) or (0.0, 1.0)
