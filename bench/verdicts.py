"""Error rates of intervals and verdicts in simulated runs whose true rates are known.

``python -m bench.verdicts [runs]`` prints the tables of docs/verdicts.md (10,000 runs by default). Seeds are
fixed, so the same version prints the same figures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirefault.stats.exact import clopper_pearson
from wirefault.stats.passes import PassRate, Tries, consistency, pass_all, pass_any
from wirefault.stats.sequential import boundaries
from wirefault.stats.survival import Duration, kaplan_meier, time_interval

RUNS = 10_000
THRESHOLD, ALPHA = 0.9, 0.05
SIZES, RATES = (20, 60, 200), (0.5, 0.8, 0.85, 0.9, 0.95, 0.97)
_CAP, _ARMS, _PASS = 1000, 6, 10
_FEW = 20  # the slow parts take this part of the runs


def measure_verdicts(runs: int = RUNS) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table."""
    few = max(runs // _FEW, 1)
    return {
        "interval of a rate": [_coverage(rate, n, runs) for n in SIZES for rate in RATES],
        "one claim, fixed n": [_fixed(rate, n, runs) for n in SIZES for rate in RATES],
        "one claim until decided": [_sequential(rate, runs) for rate in RATES],
        "unequal prompts until decided": [_unequal(runs)],
        "six claims until decided": [_several(runs)],
        "interval of pass^3, 5 prompts": [_passes(pass_all, n, few) for n in (3, 10)],
        "interval of pass@3, 5 prompts": [_passes(pass_any, n, few) for n in (3, 10)],
        "interval of consistency, 5 prompts": [_consistency(n, few) for n in (3, 10)],
        "interval of pass^3, other prompts": [_other_prompts(n, few) for n in SIZES],
        "interval of the median time to recovery": [_recovery(n, few) for n in SIZES],
    }


def _draws(seed: int, shape: tuple[int, ...], rate: Any) -> NDArray[np.bool_]:
    drawn: NDArray[np.bool_] = np.random.default_rng(seed).random(shape) < rate
    return drawn


@cache
def _interval(k: int, n: int) -> tuple[float, float]:
    return clopper_pearson(k, n) or (0.0, 1.0)


def _coverage(rate: float, n: int, runs: int) -> dict[str, Any]:
    counts = np.random.default_rng(n).binomial(n, rate, runs)
    covered = [low <= rate <= high for k in counts for low, high in [_interval(int(k), n)]]
    return {"n": n, "true rate": rate, "covers": sum(covered) / runs}


def _fixed(rate: float, n: int, runs: int) -> dict[str, Any]:
    counts = np.random.default_rng(n + 1).binomial(n, rate, runs)
    limits = [_interval(int(k), n) for k in counts]
    above = sum(low >= THRESHOLD for low, _ in limits) / runs
    below = sum(high < THRESHOLD for _, high in limits) / runs
    return {"n": n, "true rate": rate, "held": above, "deviated": below, "unknown": 1 - above - below}


def _looks(successes: NDArray[Any], alpha: float, every: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each run the first look that decides above and below the threshold, else infinity."""
    highs, lows = (np.array(each) for each in boundaries(THRESHOLD, _CAP, alpha))
    at = np.arange(every, _CAP + 1, every)
    first = []
    for crossed in (successes >= highs[at], successes <= lows[at]):
        first.append(np.where(crossed.any(axis=1), at[crossed.argmax(axis=1)], np.inf))
    return first[0], first[1]


def _sequential(rate: float, runs: int) -> dict[str, Any]:
    above, below = _looks(_draws(7, (runs, _CAP), rate).cumsum(axis=1, dtype=np.int32), ALPHA)
    return {
        "true rate": rate,
        "mean episodes": float(np.minimum(np.minimum(above, below), _CAP).mean()),
        "held": float((above < below).mean()),
        "deviated": float((below < above).mean()),
        "unknown": float((np.minimum(above, below) == np.inf).mean()),
    }


def _unequal(runs: int) -> dict[str, Any]:
    """Half of the prompts never fail, half fail in a fifth; looks after passes over ten prompts."""
    rates = np.tile([1.0, 0.8], _CAP // 2)
    successes = _draws(8, (runs, _CAP), rates).cumsum(axis=1, dtype=np.int32)
    above, below = _looks(successes[:, _PASS - 1 :: _PASS], ALPHA, _PASS)
    return {
        "mean rate": 0.9,
        "held": float((above < below).mean()),
        "deviated": float((below < above).mean()),
    }


def _several(runs: int) -> dict[str, Any]:
    """Six arms at the threshold itself: the claim is true in each, so each deviation is false."""
    runs = max(runs // _ARMS, 1)
    alone, shared = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for arm in range(_ARMS):
        successes = _draws(20 + arm, (runs, _CAP), THRESHOLD).cumsum(axis=1, dtype=np.int32)
        alone |= _looks(successes, ALPHA)[1] < np.inf
        shared |= _looks(successes, ALPHA / _ARMS)[1] < np.inf  # Holm's first step: any rejection
    return {
        "arms": _ARMS,
        "any deviated, each alone": alone.mean(),
        "any deviated, shared error": shared.mean(),
    }


_UNEQUAL = np.array([0.5, 0.8, 0.9, 0.95, 1.0])


def _passes(estimate: Callable[[list[Tries], int], PassRate | None], tries: int, runs: int) -> dict[str, Any]:
    truth = float((_UNEQUAL**3).mean() if estimate is pass_all else (1 - (1 - _UNEQUAL) ** 3).mean())
    covered = _covered(lambda row: estimate(row, 3), truth, tries, runs)
    return {"tries": tries, "covers": covered}


def _consistency(tries: int, runs: int) -> dict[str, Any]:
    truth = float((_UNEQUAL**2 + (1 - _UNEQUAL) ** 2).mean())
    return {"tries": tries, "covers": _covered(consistency, truth, tries, runs)}


def _covered(
    estimate: Callable[[list[Tries]], PassRate | None], truth: float, tries: int, runs: int
) -> float:
    covered = 0
    for row in np.random.default_rng(9).binomial(tries, _UNEQUAL, (runs, len(_UNEQUAL))):
        interval = estimate([Tries(int(successes), tries) for successes in row])
        covered += interval is not None and interval.low <= truth <= interval.high
    return covered / runs


def _other_prompts(prompts: int, runs: int) -> dict[str, Any]:
    """Five tries at each of these prompts, whose rates are drawn: 0.3 in a fifth of all, else 1."""
    chance, truth, covered = np.random.default_rng(11), 0.2 * 0.3**3 + 0.8, 0
    for _ in range(runs):
        rates = np.where(chance.random(prompts) < 0.2, 0.3, 1.0)
        row = [Tries(int(successes), 5) for successes in chance.binomial(5, rates)]
        interval = pass_all(row, 3, like_these=True)
        covered += interval is not None and interval.low <= truth <= interval.high
    return {"prompts": prompts, "covers": covered / runs}


def _recovery(n: int, runs: int) -> dict[str, Any]:
    """Exponential times to recovery with a mean of 2 s, observed for exponential times with a mean of 4 s."""
    chance, truth, covered = np.random.default_rng(n + 10), 2 * math.log(2), 0
    for _ in range(runs):
        times, ends = chance.exponential(2, n), chance.exponential(4, n)
        pairs = zip(times.tolist(), ends.tolist(), strict=True)
        durations = [Duration(min(took, end), took <= end) for took, end in pairs]
        low, high = time_interval(kaplan_meier(durations), 50)
        covered += (low or 0.0) <= truth <= (math.inf if high is None else high)
    return {"failures": n, "covers": covered / runs}


def _as_table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    for title, rows in measure_verdicts(runs).items():
        print(f"\n{title}\n\n{_as_table(rows)}")


if __name__ == "__main__":
    main()
