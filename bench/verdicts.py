"""Error rates of intervals and verdicts in simulated runs whose true rates are known.

``python -m bench.verdicts [runs]`` prints the tables of docs/verdicts.md (10,000 runs by default; three
minutes). Seeds are fixed, so the same version prints the same figures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bench.coverage import (
    ALPHA,
    RATES,
    SIZES,
    Row,
    clusters_of,
    interval_of_rate,
    measure_coverage,
)
from wirefault.experiments.estimates import PairedLoss
from wirefault.stats.exact import worse_by_chance
from wirefault.stats.holm import holm
from wirefault.stats.rates import paired_interval
from wirefault.stats.sequential import Pairs, boundaries, difference_evidence

RUNS = 10_000
THRESHOLD = 0.9
_CAP, _ARMS, _PASS = 1000, 6, 10
_MARGIN = 0.05
"""Of the claim ``degradation <= 5 %``."""
_WORSE = 0.01
"""The error of "not worse than before the faults"."""
Booleans = NDArray[np.bool_]


def measure_verdicts(runs: int = RUNS, caps: Sequence[int] = (*SIZES, _CAP)) -> dict[str, list[Row]]:
    """Return the rows of each table about verdicts. ``caps``: of episodes until decided."""
    return {
        "success_rate >= 0.9, fixed n": [_fixed(rate, n, runs) for n in SIZES for rate in RATES],
        "degradation <= 5 %, fixed n": [
            _loss(loss, n, runs) for n in SIZES for loss in (0.0, 0.05, 0.06, 0.15)
        ],
        "degradation <= 0 % of identical arms, fixed n (exact McNemar)": [
            _identical(each, n, runs) for n in SIZES for each in (0.05, 0.2, 0.5)
        ],
        "six arms that satisfy success_rate >= 0.9, fixed n": [_several_fixed(n, runs) for n in SIZES],
        "success_rate >= 0.9 of prompts like_these, three repeats each": [
            _clustered(rate, m, runs) for m in SIZES for rate in (0.85, 0.89, 0.9, 0.95)
        ],
        "success_rate >= 0.9 until decided": [_sequential(rate, cap, runs) for cap in caps for rate in RATES],
        "degradation <= 5 % until decided": [
            _sequential_loss(loss, cap, runs) for cap in caps for loss in (0.0, 0.05, 0.06, 0.15)
        ],
        "success_rate >= 0.9 until decided, unequal prompts": [_unequal(runs)],
        "six arms that satisfy success_rate >= 0.9, until decided": [_several(runs)],
        "steady state of a good agent": [
            _steady(rate, n, runs) for n in (4, *SIZES) for rate in (0.97, 0.9, 0.8)
        ],
        "pass or fail of a plug-in that stops early": [
            _plugin(rate, n, runs) for n in SIZES for rate in (0.8, 0.85, 0.89, 0.9, 0.95)
        ],
    }


def _successes(seed: int, shape: tuple[int, int], rate: Any) -> NDArray[np.int32]:
    """The successes until each episode."""
    return (np.random.default_rng(seed).random(shape) < rate).cumsum(axis=1, dtype=np.int32)


def _shares(above: Booleans, below: Booleans) -> Row:
    held_share, deviated_share = float(above.mean()), float(below.mean())
    unknown = max(0.0, round(1 - held_share - deviated_share, 9))
    return {"held": held_share, "deviated": deviated_share, "unknown": unknown}


def _fixed(rate: float, n: int, runs: int) -> Row:
    counts = np.random.default_rng(n + 1).binomial(n, rate, runs)
    limits = np.array([interval_of_rate(int(k), n) for k in counts])
    return {"n": n, "true rate": rate, **_shares(limits[:, 0] >= THRESHOLD, limits[:, 1] < THRESHOLD)}


def _loss(loss: float, n: int, runs: int) -> Row:
    """Further 5 % of the pairs succeed in the first arm alone, as many in the second alone."""
    counts = np.random.default_rng(n + 12).multinomial(n, [loss + 0.05, 0.05, 0.9 - loss], runs)
    rows, at = np.unique(counts[:, :2], axis=0, return_inverse=True)
    limits = np.array([paired_interval(gained, lost, n) for lost, gained in rows.tolist()])[at.ravel()]
    return {"pairs": n, "true loss": loss, **_shares(limits[:, 1] <= _MARGIN, limits[:, 0] > _MARGIN)}


def _identical(discordant: float, n: int, runs: int) -> Row:
    """Each side wins half of the discordant pairs."""
    shares = [discordant / 2, discordant / 2, 1 - discordant]
    counts = np.random.default_rng(n + 19).multinomial(n, shares, runs)
    rows, at = np.unique(counts[:, :2], axis=0, return_inverse=True)
    by_chance = np.array([worse_by_chance(lost, won) for lost, won in rows.tolist()])[at.ravel()]
    return {"pairs": n, "discordant": discordant, "deviated": float((by_chance <= ALPHA).mean())}


def _several_fixed(n: int, runs: int) -> Row:
    counts = np.random.default_rng(n + 13).binomial(n, THRESHOLD, (runs, _ARMS))
    chances = stats.binom.cdf(counts, n, THRESHOLD)  # of so few successes: the claim deviates at that error
    shared = [bool(holm(_ARMS, lambda i, error, row=row: bool(row[i] < error), ALPHA)[0]) for row in chances]
    return {
        "arms": _ARMS,
        "n": n,
        "any deviated, each alone": float((chances < ALPHA).any(axis=1).mean()),
        "any deviated, shared error": float(np.mean(shared)),
    }


def _clustered(rate: float, m: int, runs: int) -> Row:
    ends = clusters_of(np.random.default_rng(m + 14), rate, 0.3, m, runs)
    return {"prompts": m, "true rate": rate, **_shares(ends[:, 0] >= THRESHOLD, ends[:, 1] < THRESHOLD)}


def _looks(successes: NDArray[Any], alpha: float, every: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each run the first look that decides above and below the threshold, else infinity."""
    highs, lows = (np.array(each) for each in boundaries(THRESHOLD, _CAP, alpha))
    at = np.arange(every, every * successes.shape[1] + 1, every)
    first = []
    for crossed in (successes >= highs[at], successes <= lows[at]):
        first.append(np.where(crossed.any(axis=1), at[crossed.argmax(axis=1)], np.inf))
    return first[0], first[1]


def _sequential(rate: float, cap: int, runs: int) -> Row:
    above, below = _looks(_successes(7, (runs, cap), rate), ALPHA)
    return {
        "cap": cap,
        "true rate": rate,
        "mean episodes": float(np.minimum(np.minimum(above, below), cap).mean()),
        **_shares(above < below, below < above),
    }


def _sequential_loss(loss: float, cap: int, runs: int) -> Row:
    """Looks after passes over ten prompts; the pairs of ``_loss``."""
    shares = [loss + 0.05, 0.05, 0.9 - loss]
    draws = np.random.default_rng(cap + 15)
    pairs = draws.multinomial(_PASS, shares, (runs, cap // _PASS)).cumsum(axis=1)
    verdicts = [next(filter(None, (_decided(*look) for look in run)), "") for run in pairs.tolist()]
    sides = (np.array([each == verdict for each in verdicts]) for verdict in ("held", "deviated"))
    return {"cap": cap, "true loss": loss, **_shares(*sides)}


@cache
def _decided(lost: int, won: int, ties: int) -> str:
    evidence = difference_evidence(Pairs(lost, won, ties), _MARGIN)
    needed = -math.log(ALPHA)
    return "held" if evidence.below >= needed else "deviated" if evidence.above >= needed else ""


def _unequal(runs: int) -> Row:
    """Half of the prompts never fail, half fail in a fifth; looks after passes over ten prompts."""
    successes = _successes(8, (runs, _CAP), np.tile([1.0, 0.8], _CAP // 2))
    above, below = _looks(successes[:, _PASS - 1 :: _PASS], ALPHA, _PASS)
    return {"mean rate": 0.9, **_shares(above < below, below < above)}


def _several(runs: int) -> Row:
    """Six arms at the threshold itself: the claim is true in each, so each deviation is false."""
    alone, shared = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for arm in range(_ARMS):
        successes = _successes(20 + arm, (runs, _CAP), THRESHOLD)
        alone |= _looks(successes, ALPHA)[1] < np.inf
        shared |= _looks(successes, ALPHA / _ARMS)[1] < np.inf  # Holm's first step: any rejection
    return {
        "arms": _ARMS,
        "any deviated, each alone": float(alone.mean()),
        "any deviated, shared error": float(shared.mean()),
    }


def _steady(rate: float, n: int, runs: int) -> Row:
    """Without any effect of the faults: the arm afterwards is like the control."""
    before = np.random.default_rng(n + 16).binomial(n, rate, runs)
    pairs = np.random.default_rng(n + 17).multinomial(
        n, [rate * (1 - rate)] * 2 + [1 - 2 * rate * (1 - rate)], runs
    )
    lost, at = np.unique(pairs[:, :2], axis=0, return_inverse=True)
    worse = np.array([_chance_of_worse(*row) <= _WORSE for row in lost.tolist()])[at.ravel()]
    limits = np.array([interval_of_rate(int(k), n) for k in before])
    return {
        "n": n,
        "true rate": rate,
        "success_share >= 50 % fails": float((before < n / 2).mean()),
        "success_rate >= 80 % deviates": float((limits[:, 1] < 0.8).mean()),
        "worse afterwards": float(worse.mean()),
    }


def _chance_of_worse(lost: int, won: int) -> float:
    outcomes = [(True, False)] * lost + [(False, True)] * won
    sides = [{str(place): each[side] for place, each in enumerate(outcomes)} for side in (0, 1)]
    return PairedLoss(sides[0], sides[1]).chance_of_worse()


def _plugin(rate: float, n: int, runs: int) -> Row:
    """Beside the verdicts of the same runs."""
    outcomes = np.random.default_rng(n + 18).random((runs, n)) < rate
    passed, taken = plugin_passes(outcomes)
    above, below = _looks(outcomes.cumsum(axis=1, dtype=np.int32), ALPHA)
    fixed = np.array([interval_of_rate(int(k), n) for k in outcomes.sum(axis=1)])
    return {
        "runs": n,
        "true rate": rate,
        "plug-in passes": float(passed.mean()),
        "plug-in's mean runs": float(taken.mean()),
        "held, fixed n": float((fixed[:, 0] >= THRESHOLD).mean()),
        "held, until decided": float((above < below).mean()),
    }


def plugin_passes(outcomes: Booleans) -> tuple[Booleans, NDArray[Any]]:
    """Whether agentcheck-pytest-plugin 0.1.0 passes each row, and the runs that it takes.

    Its rule for ``agentcheck(runs=n, min_pass_rate=0.9)``, looked at after each run: pass or fail as soon as
    the remaining runs cannot change whether the share of all n reaches the rate; from 5 runs on fail if the
    95 % Wilson interval is below the rate, from half of the runs (at least 10) pass if it is above; at the
    end pass if the share reaches the rate.
    """
    runs, n = outcomes.shape
    successes = outcomes.cumsum(axis=1)
    done = np.arange(1, n + 1)
    z = stats.norm.ppf(0.975)
    share, scale = successes / done, 1 + z * z / done
    middle = share + z * z / (2 * done)
    spread = z * np.sqrt(share * (1 - share) / done + z * z / (4 * done * done))
    low, high = (middle - spread) / scale, (middle + spread) / scale
    fails = ((successes + n - done) / n < THRESHOLD) | ((done >= 5) & (high < THRESHOLD))
    passes = (successes / n >= THRESHOLD) | ((done >= max(10, n // 2)) & (low >= THRESHOLD))
    stops = fails | passes
    stops[:, -1] = True
    at = stops.argmax(axis=1)
    row = np.arange(runs)
    return passes[row, at] & ~fails[row, at], at + 1


def _as_table(rows: Sequence[Row]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    for measured in (measure_coverage, measure_verdicts):
        for title, rows in measured(runs).items():
            print(f"\n{title}\n\n{_as_table(rows)}", flush=True)


if __name__ == "__main__":
    main()
