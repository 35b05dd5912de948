"""Sequential tests: e-processes, valid at every look, and what a decision costs. Pure.

The mean of bounded observations is compared with a threshold. Evidence above it is an e-process of the null
hypothesis "the mean is at most the threshold", evidence below it one of "the mean is at least the threshold".
If the null hypothesis is true, the evidence exceeds 1 / alpha with a probability of at most alpha, however
often it is looked at and whatever makes the run stop (J. Ville, "Etude critique de la notion de collectif",
1939; A. Ramdas et al., "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38
(2023), 576-601).

Observations need independence, not a common mean: for one pass over prompts with means p_1 to p_m, the
expected factor of a bet is the product of 1 + c (p_i - threshold), at most (1 + c (mean - threshold))^m. So a
look after each whole pass is valid for the mean over the prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

ALPHA = 0.05
_BETS = 200  # points of the mixture for differences
_HUGE = 1e200
_BISECTIONS = 40
_EXACT_N = 3000  # above it a fixed n is approximate


@dataclass(frozen=True)
class Evidence:
    """Logarithms of the e-values on both sides of a threshold."""

    above: float
    """Against "the mean is at most the threshold"."""
    below: float
    """Against "the mean is at least the threshold"."""


def rate_evidence(k: int, n: int, threshold: float, k_high: int | None = None) -> Evidence:
    """Return the evidence of ``k`` successes in ``n`` trials about their rate.

    The mixture is a uniform distribution over the rates on one side of the threshold. ``k_high``: the
    successes if all open trials were some; evidence above then counts ``k``, evidence below ``k_high``.
    Raises ``ValueError`` unless 0 <= k <= n and 0 < threshold < 1.
    """
    most = k if k_high is None else k_high
    if not 0 <= k <= most <= n:
        raise ValueError(f"{k} to {most} of {n} is not a share")
    if not 0 < threshold < 1:
        raise ValueError(f"the threshold must be between 0 and 1, not {threshold:g}")
    return Evidence(_log_above(k, n, threshold), _log_above(n - most, n, 1 - threshold))


def _log_above(k: int, n: int, threshold: float) -> float:
    """Log of the mean of p^k (1-p)^(n-k) over p > threshold, by its value at the threshold.

    With the beta integral as a binomial tail it is the sum over j <= k of
    k! (n-k)! / (j! (n+1-j)!) odds^(k-j), with odds = (1 - threshold) / threshold; all terms are positive.
    """
    odds = (1 - threshold) / threshold
    term = total = 1 / (n + 1 - k)
    scale = 0.0
    for j in range(k, 0, -1):
        ratio = j / (n + 2 - j) * odds
        term *= ratio
        total += term
        if total > _HUGE:
            scale += math.log(total)
            term, total = term / total, 1.0
        if ratio < 1 and term < total * 1e-17:
            break
    return scale + math.log(total)


@dataclass(frozen=True)
class Pairs:
    """Paired trials by their difference: 1, -1 or 0."""

    wins: int
    losses: int
    ties: int


def difference_evidence(pairs: Pairs, margin: float, highest: Pairs | None = None) -> Evidence:
    """Return the evidence of paired trials about their mean difference, against a margin.

    With margin 0 only the discordant pairs count. The mixture has ``_BETS`` equal bets on each side; every
    finite mixture of bets is valid. ``highest``: the pairs if open ones differ by as much as possible;
    ``pairs`` then has them at their lowest. Raises ``ValueError`` unless -1 < margin < 1.
    """
    highest = highest or pairs
    if not -1 < margin < 1:
        raise ValueError(f"the margin must be between -1 and 1, not {margin:g}")
    above = _log_of_bets(pairs.wins, pairs.losses, pairs.ties, margin)
    return Evidence(above, _log_of_bets(highest.losses, highest.wins, highest.ties, -margin))


def _log_of_bets(wins: int, losses: int, ties: int, margin: float) -> float:
    logs = []
    for place in range(_BETS):
        bet = (place + 0.5) / _BETS / (1 + margin)
        logs.append(
            wins * math.log1p(bet * (1 - margin))
            + losses * math.log1p(-bet * (1 + margin))
            + ties * math.log1p(-bet * margin)
        )
    most = max(logs)
    return most + math.log(sum(math.exp(each - most) for each in logs) / _BETS)


def rate_interval(k: int, n: int, k_high: int | None = None, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the rates that the evidence until now does not exclude; it is valid at every look.

    It contains the true rate at all looks together with a probability of at least 1 - 2 alpha.
    """
    most = k if k_high is None else k_high
    return _limit_above(k, n, alpha), 1 - _limit_above(n - most, n, alpha)


def _limit_above(k: int, n: int, alpha: float) -> float:
    needed = math.log(1 / alpha)
    low, high = 0.0, k / n if n else 0.0
    for _ in range(_BISECTIONS if k else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_above(k, n, middle) >= needed else (low, middle)
    return low


def difference_interval(
    pairs: Pairs, highest: Pairs | None = None, alpha: float = ALPHA
) -> tuple[float, float]:
    """Return the mean differences that the evidence until now does not exclude; see ``rate_interval``."""
    highest = highest or pairs
    low = _limit_of_bets(pairs.wins, pairs.losses, pairs.ties, alpha)
    return low, -_limit_of_bets(highest.losses, highest.wins, highest.ties, alpha)


def _limit_of_bets(wins: int, losses: int, ties: int, alpha: float) -> float:
    needed, n = math.log(1 / alpha), wins + losses + ties
    low, high = -1.0, (wins - losses) / n if n else -1.0
    for _ in range(_BISECTIONS if wins + ties else 0):
        middle = (low + high) / 2
        reached = _log_of_bets(wins, losses, ties, middle) >= needed
        low, high = (middle, high) if reached else (low, middle)
    return low


@dataclass(frozen=True)
class RunLength:
    """How long a sequential test of a rate takes, exactly, at one true rate."""

    mean: float
    """Trials until it decides or reaches the cap."""
    above: float
    """Probability that it decides for a rate above the threshold."""
    below: float
    """Probability that it decides for a rate below it."""
    p90: int | None
    """Trials in which nine tenths of the tests decide; None if the cap is reached before."""

    @property
    def open(self) -> float:
        """Probability that it reaches the cap undecided."""
        return max(0.0, 1 - self.above - self.below)


@lru_cache(maxsize=64)
def run_length(rate: float, threshold: float, cap: int, every: int = 1, alpha: float = ALPHA) -> RunLength:
    """Return how long the test takes at a true ``rate``, looked at after ``every`` trials.

    The distribution of successes is followed trial by trial, without simulation.
    """
    highs, lows = boundaries(threshold, cap, alpha)
    alive = [1.0]
    mean = above = below = 0.0
    p90: int | None = None
    for n in range(1, cap + 1):
        mean += sum(alive)
        alive = [
            (alive[k] * (1 - rate) if k < n else 0.0) + (alive[k - 1] * rate if k else 0.0)
            for k in range(n + 1)
        ]
        if n % every == 0:
            if highs[n] <= n:
                above += sum(alive[highs[n] :])
                alive[highs[n] :] = [0.0] * (n + 1 - highs[n])
            if lows[n] >= 0:
                below += sum(alive[: lows[n] + 1])
                alive[: lows[n] + 1] = [0.0] * (lows[n] + 1)
            if p90 is None and above + below >= 0.9:
                p90 = n
            if above + below > 1 - 1e-9:
                break
    return RunLength(mean, above, below, p90)


@lru_cache(maxsize=16)
def boundaries(threshold: float, cap: int, alpha: float = ALPHA) -> tuple[Sequence[int], Sequence[int]]:
    """Return, by the number of trials, the successes that decide.

    First the fewest that decide for a rate above the threshold (``n + 1``: none), then the most that decide
    for one below it (-1: none).
    """
    needed = math.log(1 / alpha)
    highs, fewest_failures = [1], [1]
    for n in range(1, cap + 1):
        highs.append(_next_boundary(highs[-1], n, threshold, needed))
        fewest_failures.append(_next_boundary(fewest_failures[-1], n, 1 - threshold, needed))
    return highs, [n - failures for n, failures in enumerate(fewest_failures)]


def _next_boundary(before: int, n: int, threshold: float, needed: float) -> int:
    """Return the boundary at ``n``, which is that at ``n - 1`` or one higher."""
    k = min(before, n)
    while k <= n and _log_above(k, n, threshold) < needed:
        k += 1
    while 0 < k <= n and _log_above(k - 1, n, threshold) >= needed:
        k -= 1
    return k


def fixed_n(rate: float, threshold: float, power: float, alpha: float = ALPHA) -> int | None:
    """Return the fewest trials with which one exact test at their end decides with that ``power``.

    None for a rate at the threshold, which no number decides. Approximate for more than 3,000.
    """
    if rate < threshold:
        rate, threshold = 1 - rate, 1 - threshold
    if rate - threshold < 1e-9 or not 0 < threshold < 1:
        return None
    normal = NormalDist()
    spread = normal.inv_cdf(1 - alpha) * math.sqrt(threshold * (1 - threshold))
    spread += normal.inv_cdf(min(power, 1 - 1e-9)) * math.sqrt(rate * (1 - rate))
    about = max(1, math.ceil((spread / (rate - threshold)) ** 2))
    if about > _EXACT_N:
        return about
    n = max(1, about // 2)
    while _power(n, rate, threshold, alpha) < power:
        n += 1
    return n


def _power(n: int, rate: float, threshold: float, alpha: float) -> float:
    tail, k = 0.0, n + 1
    while k > 0 and tail + (p := _binomial(k - 1, n, threshold)) <= alpha:
        tail, k = tail + p, k - 1
    return math.fsum(_binomial(j, n, rate) for j in range(k, n + 1))


def _binomial(k: int, n: int, p: float) -> float:
    if p in (0, 1):
        return float(k == n * p)
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log + k * math.log(p) + (n - k) * math.log1p(-p))
