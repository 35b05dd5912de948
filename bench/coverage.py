"""How often intervals miss the truth in simulated runs, on each side; ``bench.verdicts`` prints the tables.

A claim whose threshold is the truth is wrongly held, or wrongly deviates, as often as one end misses: each
has 5 %. Seeds are fixed, so the same version prints the same figures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from wirefault.experiments.estimates import PairedLoss
from wirefault.stats.bootstrap import _CALIBRATION, MIN_SEEN, RatioOfSums
from wirefault.stats.exact import clopper_pearson, clustered_rate, percentile_interval
from wirefault.stats.passes import PassRate, Tries, consistency, pass_all, pass_any
from wirefault.stats.rates import paired_interval, unpaired_difference
from wirefault.stats.sequential import Pairs, boundaries, difference_evidence
from wirefault.stats.survival import Duration, kaplan_meier, time_interval

ALPHA = 0.05
"""Error of one end."""
SIZES, RATES = (20, 60, 200), (0.5, 0.8, 0.85, 0.9, 0.95, 0.97)
_CAP, _REPEATS, _CHUNK = 1000, 3, 500
_FEW = 5  # a slow table takes this part of the runs
Row = dict[str, Any]
Floats = NDArray[np.float64]
Interval = tuple[float, float]


def measure_coverage(runs: int, sizes: Sequence[int] = SIZES) -> dict[str, list[Row]]:
    """Return the rows of each table, each from so many simulated runs of these sizes."""
    return {
        "rate, exact (Clopper-Pearson)": [_rate(rate, n, runs) for n in sizes for rate in RATES],
        "share in summaries and charts, 95 % (Clopper-Pearson)": [
            _share(rate, n, runs) for n in sizes for rate in (0.5, 0.9, 0.97)
        ],
        "percentile, exact (order statistics)": [
            _percentile(percent, n, runs) for percent in (50, 95, 99) for n in sizes
        ],
        "loss from arm to arm, paired (Tango)": [
            _loss(loss, won, n, runs) for n in sizes for loss in (0.0, 0.05, 0.2) for won in (0.0, 0.02, 0.1)
        ],
        "percentile of attempts, three an episode (Woodruff)": [
            _attempts(percent, n, runs) for percent in (50, 95) for n in sizes
        ],
        "unpaired difference (Miettinen and Nurminen)": [
            _unpaired(*rates, n, runs) for n in sizes for rates in ((0.9, 0.9), (0.9, 0.8), (0.98, 0.02))
        ],
        "mean, studentised bootstrap": [_mean(kind, n, runs) for kind in _UNITS for n in sizes],
        "rate over clusters of three, like_these (Korn and Graubard)": [
            _clusters(rate, alike, m, runs) for m in sizes for rate in (0.8, 0.9) for alike in (0.2, 0.5)
        ],
        "calls of an episode, availability (Korn and Graubard)": [
            _calls(rate, alike, n, max(runs // _FEW, min(runs, 200)))
            for n in sizes
            for rate in (0.8, 0.95)
            for alike in (0.1, 0.5)
        ],
        "loss over clusters of three, like_these": [_loss_of_clusters(m, runs) for m in sizes],
        "rate over parts of episodes, as recovery_rate (Korn and Graubard)": [
            _parts(0.9, n, runs) for n in sizes
        ],
        "repeated tries over five prompts": [
            _passes(kind, tries, runs) for kind in _PASSES for tries in (3, 10, 20)
        ],
        "pass^3 over other prompts, like_these": [_other_prompts(n, runs) for n in sizes],
        "median time to recovery, censored (Brookmeyer and Crowley)": [
            _recovery(n, alike, runs) for alike in (False, True) for n in sizes
        ],
        "rate at any of 1,000 looks (e-process)": [_looks(rate, runs) for rate in (0.5, 0.8, 0.9, 0.97)],
        "loss at any of 30 looks at ten pairs (e-process)": [
            _looks_at_pairs(loss, runs) for loss in (0.0, 0.05, 0.2)
        ],
    }


def _missed(intervals: Sequence[Interval] | Floats, truth: float) -> Row:
    """The share of intervals above and below the truth; an end that rounding moved across it is not one."""
    ends = np.asarray(intervals, dtype=float)
    margin = 1e-9 * max(1.0, abs(truth))
    return {
        "low end above truth": float((ends[:, 0] > truth + margin).mean()),
        "high end below truth": float((ends[:, 1] < truth - margin).mean()),
    }


@cache
def interval_of_rate(k: int, n: int) -> Interval:
    return clopper_pearson(k, n) or (0.0, 1.0)


def _each_once(counts: NDArray[Any], interval: Callable[..., Interval]) -> Floats:
    """The interval of each row of counts, computed once for equal rows."""
    rows, at = np.unique(counts, axis=0, return_inverse=True)
    return np.array([interval(*map(int, row)) for row in rows])[at.ravel()]


def _rate(rate: float, n: int, runs: int) -> Row:
    counts = np.random.default_rng(n).binomial(n, rate, runs)
    return {"n": n, "true rate": rate, **_missed([interval_of_rate(int(k), n) for k in counts], rate)}


def _share(rate: float, n: int, runs: int) -> Row:
    counts = np.random.default_rng(n + 23).binomial(n, rate, runs)
    ends = [clopper_pearson(int(k), n, 0.95) or (0.0, 1.0) for k in counts]
    return {"n": n, "true rate": rate, **_missed(ends, rate)}


def _percentile(percent: int, n: int, runs: int) -> Row:
    """Exponential values. Without ties the ends are the same order statistics whatever the values are."""
    low, high = percentile_interval(range(1, n + 1), percent, ALPHA)
    values = np.sort(np.random.default_rng(n + 2).exponential(1.0, (runs, n)), axis=1)
    ends = np.empty((runs, 2))
    ends[:, 0] = values[:, int(low) - 1] if math.isfinite(low) else low
    ends[:, 1] = values[:, int(high) - 1] if math.isfinite(high) else high
    return {"percentile": f"p{percent}", "n": n, **_missed(ends, -math.log(1 - percent / 100))}


def _attempts(percent: int, n: int, runs: int) -> Row:
    """Exponential times of attempts; the attempts of an episode share a common factor, half of the time."""
    draws, ends = np.random.default_rng(n + 20), []
    shares = draws.gamma(2.0, 0.5, (runs, n, 1)) * draws.exponential(1.0, (runs, n, 3))
    for values in shares.reshape(runs, -1).tolist():
        ends.append(percentile_interval(values, percent, ALPHA, float(n)))
    return {"percentile": f"p{percent}", "n": n, **_missed(ends, _percentile_of_attempts(percent))}


@cache
def _percentile_of_attempts(percent: int) -> float:
    """P(value > t) is the mean of exp(-t / factor), and 1 minus the share at the percentile."""
    factors = stats.gamma.ppf((np.arange(100_000) + 0.5) / 100_000, 2.0, scale=0.5)
    return float(optimize.brentq(lambda t: np.exp(-t / factors).mean() - 1 + percent / 100, 0.0, 100.0))


def _loss(loss: float, won: float, n: int, runs: int) -> Row:
    """``won``: the share of pairs that succeed in the second arm alone."""
    counts = np.random.default_rng(n + 3).multinomial(n, [loss + won, won, 1 - loss - 2 * won], runs)
    ends = _each_once(counts[:, :2], lambda lost, gained: paired_interval(gained, lost, n))
    return {"pairs": n, "true loss": loss, "also gained": won, **_missed(ends, loss)}


def _unpaired(first: float, second: float, n: int, runs: int) -> Row:
    draws = np.random.default_rng(n + 4)
    counts = np.stack([draws.binomial(n, rate, runs) for rate in (first, second)], axis=1)

    def interval(one: int, other: int) -> Interval:
        difference = unpaired_difference(one, n, other, n)
        assert difference is not None
        return difference.low, difference.high

    truth = second - first
    return {"n each": n, "true rates": f"{first}, {second}", **_missed(_each_once(counts, interval), truth)}


def _log_normal(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    return draws.lognormal(0, 1, shape), np.ones(shape), math.exp(0.5)


def _exponential(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    return draws.exponential(1, shape), np.ones(shape), 1.0


def _outages(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    """One to three failures an episode, each with an exponential time to recovery."""
    failures = draws.integers(1, 4, shape).astype(float)
    return draws.gamma(failures, 1.0), failures, 1.0


def _amplified(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    """Requests for the failed calls of an episode, one to three; half of the requests are sent again."""
    failures = draws.integers(1, 4, shape)
    requests = failures + draws.negative_binomial(failures, 0.5, shape)
    return requests.astype(float), failures.astype(float), 2.0


def _seldom_dearer(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    """A paired difference that has either sign, in a third of the pairs: no interval until five differ."""
    differences = draws.exponential(2, shape) - draws.exponential(1, shape)
    return np.where(draws.random(shape) < 1 / 3, differences, 0.0), np.ones(shape), 1 / 3


def _rarely_ten(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    return np.where(draws.random(shape) < 0.05, 10.0, 1.0), np.ones(shape), 1.45


def _mostly_none(draws: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats, float]:
    """A cost of faults: it has no interval until five episodes had one."""
    return np.where(draws.random(shape) < 0.1, draws.exponential(1, shape), 0.0), np.ones(shape), 0.1


_UNITS: dict[str, Callable[[np.random.Generator, tuple[int, int]], tuple[Floats, Floats, float]]] = {
    "exponential": _exponential,
    "log-normal": _log_normal,
    "per failure (ratio)": _outages,
    "requests per failed call (ratio)": _amplified,
    "1, in 5 % 10": _rarely_ten,
    "0, in 10 % exponential": _mostly_none,
    "difference, 0 in two thirds": _seldom_dearer,
}


def _mean(kind: str, n: int, runs: int) -> Row:
    above, below, truth = _UNITS[kind](np.random.default_rng(n + 5), (runs, n))
    ends = bootstrap_intervals(above, below)
    if _UNITS[kind] in (_mostly_none, _seldom_dearer):
        ends[(above != 0).sum(axis=1) < MIN_SEEN] = -np.inf, np.inf
    return {"values": kind, "n": n, **_missed(ends, truth)}


def bootstrap_intervals(above: Floats, below: Floats) -> Floats:
    """The intervals of ``RatioOfSums`` for many runs at once: it resamples the same units in each."""
    runs, n = above.shape
    resamples = len(RatioOfSums(above[0], below[0])._statistics)
    draws = random.Random(1)
    weights = np.array(
        [np.bincount(draws.choices(range(n), k=n), minlength=n) for _ in range(resamples)], dtype=float
    )
    ends = [
        _studentised(above[at : at + _CHUNK], below[at : at + _CHUNK], weights)
        for at in range(0, runs, _CHUNK)
    ]
    return np.concatenate(ends)


def _studentised(above: Floats, below: Floats, weights: Floats) -> Floats:
    n = above.shape[1]
    value, spread = _ratios(*(each.sum(axis=1) for each in _terms(above, below)), n)
    again, spreads = _ratios(*(weights @ each.T for each in _terms(above, below)), n)
    difference = again - value
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.where(
            spreads > 0, difference / spreads, np.where(difference == 0, 0, np.inf * np.sign(difference))
        )
    ordered = np.sort(statistics, axis=0)
    rank = math.floor(ALPHA * _CALIBRATION * (len(weights) + 1) + 1e-9)
    with np.errstate(invalid="ignore"):
        ends = [np.where(spread > 0, value - ordered[at] * spread, value) for at in (-rank, rank - 1)]
    return np.stack(ends, axis=1)


def _terms(above: Floats, below: Floats) -> Iterator[Floats]:
    yield from (above, below, above * above, above * below, below * below)


def _ratios(
    above: Floats, below: Floats, squares: Floats, products: Floats, squares_below: Floats, n: int
) -> tuple[Floats, Floats]:
    ratio = above / below
    residuals = np.maximum(squares - 2 * ratio * products + ratio**2 * squares_below, 0.0)
    spread = np.sqrt(residuals * n / (n - 1)) / below
    return ratio, np.where(spread > 1e-7 * np.abs(ratio), spread, 0.0)


def rates_of_prompts(draws: np.random.Generator, rate: float, alike: float, shape: Any) -> Floats:
    """Draw beta distributed rates; ``alike`` is the correlation of two tries at one prompt."""
    size = (1 - alike) / alike
    rates: Floats = draws.beta(rate * size, (1 - rate) * size, shape)
    return rates


def clusters_of(draws: np.random.Generator, rate: float, alike: float, m: int, runs: int) -> Floats:
    """The intervals of runs of ``m`` prompts, drawn from many, with three repeats each."""
    successes = draws.binomial(_REPEATS, rates_of_prompts(draws, rate, alike, (runs, m)))
    kinds = np.stack([(successes == k).sum(axis=1) for k in range(_REPEATS + 1)], axis=1)
    return _each_once(
        kinds,
        lambda *each: clustered_rate(
            [(k, _REPEATS) for k, number in enumerate(each) for _ in range(number)], ALPHA
        ),
    )


def _clusters(rate: float, alike: float, m: int, runs: int) -> Row:
    ends = clusters_of(np.random.default_rng(m + 6), rate, alike, m, runs)
    return {"prompts": m, "true rate": rate, "correlation": alike, **_missed(ends, rate)}


def _calls(rate: float, alike: float, n: int, runs: int) -> Row:
    """Episodes of one to six calls, whose ends are alike by this correlation."""
    draws, ends = np.random.default_rng(n + 8), []
    for _ in range(runs):
        sizes = draws.integers(1, 7, n)
        worked = draws.binomial(sizes, rates_of_prompts(draws, rate, alike, n))
        calls = list(zip(worked.tolist(), sizes.tolist(), strict=True))
        ends.append(clustered_rate(calls, ALPHA, min_mixed=MIN_SEEN))
    return {"episodes": n, "true rate": rate, "correlation": alike, **_missed(ends, rate)}


def _loss_of_clusters(m: int, runs: int) -> Row:
    """Prompts with a mean rate of .9 and a correlation of .3, of which faults take a share that differs."""
    draws, ends = np.random.default_rng(m + 7), []
    keys = [f"p{prompt}.r{repeat}" for prompt in range(m) for repeat in range(_REPEATS)]
    for _ in range(runs):
        rates = np.repeat(rates_of_prompts(draws, 0.9, 0.3, m), _REPEATS)
        lost = np.repeat(rates_of_prompts(draws, 0.1, 0.3, m), _REPEATS)
        before = draws.random(m * _REPEATS) < rates
        after = draws.random(m * _REPEATS) < rates * (1 - lost)
        sides = [dict(zip(keys, each.tolist(), strict=True)) for each in (before, after)]
        bounds = PairedLoss(sides[0], sides[1], "like_these").interval(ALPHA)
        ends.append((float(bounds.low), float(bounds.high)))
    return {"prompts": m, "true loss": 0.09, **_missed(ends, 0.09)}


_UNEQUAL = np.array([0.5, 0.8, 0.9, 0.95, 1.0])
_PASSES: dict[str, tuple[Callable[[list[Tries]], PassRate | None], float]] = {
    "pass^3": (lambda tries: pass_all(tries, 3), float((_UNEQUAL**3).mean())),
    "pass@3": (lambda tries: pass_any(tries, 3), float((1 - (1 - _UNEQUAL) ** 3).mean())),
    "consistency": (consistency, float((_UNEQUAL**2 + (1 - _UNEQUAL) ** 2).mean())),
}


def _parts(rate: float, n: int, runs: int) -> Row:
    """Episodes of one to five failures, with a different rate of recovery each."""
    draws = np.random.default_rng(n + 21)
    sizes = draws.integers(1, 6, (runs, n))
    recovered = draws.binomial(sizes, rates_of_prompts(draws, rate, 0.3, (runs, n)))
    ends = [
        clustered_rate(list(zip(*each, strict=True)), ALPHA)
        for each in zip(recovered.tolist(), sizes.tolist(), strict=True)
    ]
    return {"n": n, "true rate": rate, **_missed(ends, rate)}


def _passes(kind: str, tries: int, runs: int) -> Row:
    counts = np.sort(np.random.default_rng(9).binomial(tries, _UNEQUAL, (runs, len(_UNEQUAL))), axis=1)
    estimate, truth = _PASSES[kind]

    def interval(*successes: int) -> Interval:
        rate = estimate([Tries(each, tries) for each in successes])
        assert rate is not None
        return rate.low, rate.high

    return {"measure": kind, "tries": tries, **_missed(_each_once(counts, interval), truth)}


def _other_prompts(prompts: int, runs: int) -> Row:
    """Five tries at each of these prompts, whose rates are drawn: 0.3 in a fifth of all, else 1."""
    draws = np.random.default_rng(11)
    rates = np.where(draws.random((runs, prompts)) < 0.2, 0.3, 1.0)
    successes = draws.binomial(5, rates)
    kinds = np.stack([(successes == k).sum(axis=1) for k in range(6)], axis=1)

    def interval(*numbers: int) -> Interval:
        tries = [Tries(k, 5) for k, number in enumerate(numbers) for _ in range(number)]
        rate = pass_all(tries, 3, like_these=True)
        assert rate is not None
        return rate.low, rate.high

    return {"prompts": prompts, **_missed(_each_once(kinds, interval), 0.2 * 0.3**3 + 0.8)}


def _recovery(n: int, alike: bool, runs: int) -> Row:
    """Exponential times to recovery with a mean of 2 s, observed for exponential times with a mean of 4 s.

    ``alike``: in episodes of three failures, which in half of the episodes take the same time.
    """
    chance, ends = np.random.default_rng(n + 10), []
    for _ in range(runs):
        times, until = chance.exponential(2, n), chance.exponential(4, n)
        groups = [""] * n
        if alike:
            groups = [str(place // 3 + 1) for place in range(n)]
            same = np.repeat(chance.random(n // 3 + 1) < 0.5, 3)[:n]
            times = np.where(same, np.repeat(times[::3], 3)[:n], times)
        durations = [
            Duration(min(took, end), took <= end, group)
            for took, end, group in zip(times.tolist(), until.tolist(), groups, strict=True)
        ]
        low, high = time_interval(kaplan_meier(durations), 50)
        ends.append((low or 0.0, math.inf if high is None else high))
    grouped = "in threes, alike" if alike else "independent"
    return {"failures": n, "in episodes": grouped, **_missed(ends, 2 * math.log(2))}


def _looks(rate: float, runs: int) -> Row:
    """Whether the interval ever excludes the rate: the looks at which a claim about it would be decided."""
    highs, lows = (np.array(each)[1:] for each in boundaries(rate, _CAP, ALPHA))
    draws = np.random.default_rng(11).random((runs, _CAP)) < rate
    successes = draws.cumsum(axis=1, dtype=np.int32)
    return {
        "true rate": rate,
        "low end above truth": float((successes >= highs).any(axis=1).mean()),
        "high end below truth": float((successes <= lows).any(axis=1).mean()),
    }


def _looks_at_pairs(loss: float, runs: int) -> Row:
    """Further 5 % of the pairs are lost, as many gained."""
    shares = [loss + 0.05, 0.05, 0.9 - loss]
    pairs = np.random.default_rng(22).multinomial(10, shares, (runs, 30)).cumsum(axis=1)
    above = below = 0
    for run in pairs.tolist():
        evidence = [_evidence(lost, won, ties, loss) for lost, won, ties in run]
        above += max(high for high, _ in evidence) >= -math.log(ALPHA)
        below += max(low for _, low in evidence) >= -math.log(ALPHA)
    return {"true loss": loss, "low end above truth": above / runs, "high end below truth": below / runs}


@lru_cache(maxsize=100_000)
def _evidence(lost: int, won: int, ties: int, loss: float) -> tuple[float, float]:
    evidence = difference_evidence(Pairs(lost, won, ties), loss)
    return evidence.above, evidence.below
