"""Sequential tests against an independent computation, a public package, and simulated runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from wirefault.stats.sequential import (
    Pairs,
    boundaries,
    difference_evidence,
    difference_interval,
    fixed_n,
    rate_evidence,
    rate_interval,
    run_length,
)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (7, 7), (95, 100), (60, 100), (2940, 3000)])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.9, 0.999])
def test_rate_evidence_is_truncated_beta_mixture(k: int, n: int, threshold: float) -> None:
    evidence = rate_evidence(k, n, threshold)
    at_threshold = k * math.log(threshold) + (n - k) * math.log1p(-threshold)
    mixture, posterior = (
        scipy.special.betaln(k + 1, n - k + 1) - at_threshold,
        scipy.stats.beta(k + 1, n - k + 1),
    )
    above = mixture + posterior.logsf(threshold) - math.log1p(-threshold)
    below = mixture + posterior.logcdf(threshold) - math.log(threshold)
    for ours, theirs in ((evidence.above, above), (evidence.below, below)):
        if math.isfinite(theirs):  # scipy's tails end at 1e-308
            assert ours == pytest.approx(theirs, abs=1e-6)


def test_both_sides_together_are_the_mixture_of_ville() -> None:
    ville = pytest.importorskip("ville")
    outcomes = np.random.default_rng(7).random(400) < 0.93
    theirs = ville.BernoulliTest(0.9).fit(outcomes.astype(float)).log_e_values_
    for n in (1, 10, 100, 400):
        ours = rate_evidence(int(outcomes[:n].sum()), n, 0.9)
        both = 0.1 * math.exp(ours.above) + 0.9 * math.exp(ours.below)
        assert math.log(both) == pytest.approx(theirs[n - 1], abs=1e-9)


def test_open_trials_count_against_each_side() -> None:
    evidence = rate_evidence(8, 12, 0.5, k_high=11)
    assert evidence.above == rate_evidence(8, 12, 0.5).above
    assert evidence.below == rate_evidence(11, 12, 0.5).below


def test_difference_without_margin_is_rate_of_discordant_pairs() -> None:
    pairs = difference_evidence(Pairs(wins=12, losses=3, ties=500), 0)
    rate = rate_evidence(12, 15, 0.5)
    assert pairs.above == pytest.approx(rate.above, abs=1e-3)
    assert pairs.below == pytest.approx(rate.below, abs=1e-3)


def test_pairs_without_difference_decide_for_less_than_margin() -> None:
    needed = math.log(20)
    assert difference_evidence(Pairs(0, 0, 110), 0.05).below > needed
    assert difference_evidence(Pairs(0, 0, 110), 0.05, highest=Pairs(10, 0, 100)).below < needed


def test_boundaries_are_first_counts_that_decide() -> None:
    highs, lows = boundaries(0.9, 200)
    for n in (28, 60, 200):
        assert rate_evidence(highs[n], n, 0.9).above >= math.log(20) if highs[n] <= n else True
        assert rate_evidence(highs[n] - 1, n, 0.9).above < math.log(20)
        assert rate_evidence(lows[n], n, 0.9).below >= math.log(20)
        assert rate_evidence(lows[n] + 1, n, 0.9).below < math.log(20)


def simulated(rate: float, tests: int, seed: int) -> tuple[float, float, float]:
    """Mean length, shares decided above and below, of tests against 0.9 with at most 1,000 trials."""
    highs, lows = (np.array(each) for each in boundaries(0.9, 1000))
    successes = (np.random.default_rng(seed).random((tests, 1000)) < rate).cumsum(axis=1)
    above, below = successes >= highs[1:], successes <= lows[1:]
    decided = above | below
    first = np.where(decided.any(axis=1), decided.argmax(axis=1), 999)
    rows = np.arange(tests)
    return float(first.mean() + 1), float(above[rows, first].mean()), float(below[rows, first].mean())


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.97])
def test_run_length_agrees_with_simulation(rate: float) -> None:
    exact = run_length(rate, 0.9, 1000)
    mean, above, _ = simulated(rate, 2000, seed=3)
    assert mean == pytest.approx(exact.mean, rel=0.08)
    assert above == pytest.approx(exact.above, abs=0.01)


def test_wrong_decisions_stay_below_five_percent_a_side() -> None:
    _, above, below = simulated(0.9, 2000, seed=5)
    assert max(above, below) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    exact = run_length(0.9, 0.9, 1000)
    assert exact.above <= 0.05 and exact.below <= 0.05


def test_looks_after_whole_passes_are_valid_for_unequal_prompts() -> None:
    """Half of the prompts always succeed, half in 80 %: the mean is the threshold."""
    draws = np.random.default_rng(11).random((2000, 100, 10)) < np.array([1.0, 0.8] * 5)
    successes = draws.sum(axis=2).cumsum(axis=1)
    highs, lows = (np.array(each)[10::10] for each in boundaries(0.9, 1000))
    bound = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    assert (successes >= highs).any(axis=1).mean() <= bound
    assert (successes <= lows).any(axis=1).mean() <= bound


def test_fixed_n_is_fewest_trials_with_that_power() -> None:
    n = fixed_n(0.97, 0.9, 0.9)
    assert n is not None
    powers = []
    for size in (n - 1, n):
        critical = next(k for k in range(size + 2) if scipy.stats.binom.sf(k - 1, size, 0.9) <= 0.05)
        powers.append(float(scipy.stats.binom.sf(critical - 1, size, 0.97)))
    assert powers[0] < 0.9 <= powers[1]
    assert fixed_n(0.9, 0.9, 0.9) is None
    assert fixed_n(0.5, 0.9, 0.9) == fixed_n(0.5, 0.1, 0.9)


@pytest.mark.parametrize("arguments", [(3, 2, 0.5), (1, 2, 0.0), (1, 2, 1.0), (-1, 2, 0.5)])
def test_impossible_counts_and_thresholds_are_refused(arguments: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match=r"share|threshold"):
        rate_evidence(*arguments)


@pytest.mark.parametrize(("k", "n"), [(0, 9), (9, 9), (93, 100), (500, 1000)])
def test_interval_ends_where_evidence_decides(k: int, n: int) -> None:
    low, high = rate_interval(k, n)
    for threshold in np.linspace(0.01, 0.99, 99):
        evidence = rate_evidence(k, n, float(threshold))
        assert (evidence.above >= math.log(20)) == (threshold < low)
        assert (evidence.below >= math.log(20)) == (threshold > high)


def test_interval_of_difference_covers_both_ends_of_open_pairs() -> None:
    low, high = difference_interval(Pairs(0, 0, 110))
    assert -0.05 < low < 0 < high < 0.05
    assert difference_interval(Pairs(0, 5, 105), Pairs(5, 0, 105))[0] < low
    assert difference_interval(Pairs(0, 0, 0)) == (-1.0, 1.0)
    assert difference_interval(Pairs(9, 0, 0))[0] > 0


def test_interval_covers_true_rate_at_all_looks() -> None:
    successes = (np.random.default_rng(2).random((200, 200)) < 0.9).cumsum(axis=1)
    covers = [
        all(
            low <= 0.9 <= high
            for n in range(10, 201, 10)
            for low, high in [rate_interval(int(run[n - 1]), n)]
        )
        for run in successes
    ]
    assert sum(covers) / 200 >= 0.9 - 3 * math.sqrt(0.09 / 200)
