"""Exact intervals and tests, against scipy and against enumeration."""

from __future__ import annotations

import math
import random

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from wirefault.stats.exact import (
    clopper_pearson,
    clustered_rate,
    episodes_to_rule_out,
    exact_high,
    exact_low,
    fisher,
    log_beta_cdf,
    percentile_interval,
    ruled_out_above,
    t_quantile,
    worse_by_chance,
)
from wirefault.stats.holm import holm

COUNTS = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
ERRORS = st.sampled_from([0.05, 0.025, 0.01, 0.05 / 7])


@settings(max_examples=60, deadline=None)
@given(COUNTS, ERRORS)
def test_limits_agree_with_scipy(counts: tuple[int, int], error: float) -> None:
    k, n = counts
    assert exact_low(k, n, error) == pytest.approx(
        0 if not k else scipy.special.betaincinv(k, n - k + 1, error), rel=1e-9
    )
    high = 1 if k == n else scipy.special.betaincinv(k + 1, n - k, 1 - error)
    assert exact_high(k, n, error) == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize("n", [1, 4, 20, 60])
def test_exact_interval_errs_at_most_5_percent_on_each_side(n: int) -> None:
    """Enumerated over all counts, for rates from 1 % to 99 %."""
    limits = [clopper_pearson(k, n) for k in range(n + 1)]
    for percent in range(1, 100):
        rate = percent / 100
        chances = [math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
        assert sum(c for c, (low, _) in zip(chances, limits, strict=True) if low > rate) <= 0.05 + 1e-12
        assert sum(c for c, (_, high) in zip(chances, limits, strict=True) if high < rate) <= 0.05 + 1e-12


def test_tiny_tails_have_logarithms() -> None:
    assert log_beta_cdf(0.3, 600, 401) == pytest.approx(scipy.stats.binom.logsf(599, 1000, 0.3), rel=1e-9)
    assert log_beta_cdf(0.001, 900, 101) < -5000
    assert (log_beta_cdf(0, 2, 3), log_beta_cdf(1, 2, 3)) == (-math.inf, 0.0)


def test_no_data_has_no_interval() -> None:
    assert clopper_pearson(0, 0) is None
    with pytest.raises(ValueError, match="not a share"):
        clopper_pearson(3, 2)


def test_none_in_n_rules_out_rates_above() -> None:
    assert ruled_out_above(4) == pytest.approx(exact_high(0, 4, 0.05)) == pytest.approx(0.5271, abs=1e-4)
    assert [episodes_to_rule_out(rate) for rate in (0.05, 0.01, 0.5)] == [59, 299, 5]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_exact_sign_test(lost: int, won: int) -> None:
    expected = scipy.stats.binomtest(lost, lost + won, 0.5, "greater").pvalue if lost + won else 1.0
    assert worse_by_chance(lost, won) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_fisher_agrees_with_scipy(a: int, b: int, c: int, d: int) -> None:
    if not a + b or not c + d:
        return
    expected = scipy.stats.fisher_exact([[c, d], [a, b]], "less").pvalue
    assert fisher(a, a + b, c, c + d) == pytest.approx(expected, rel=1e-6)


def test_t_quantiles_agree_with_scipy() -> None:
    for degrees in (1, 2, 9, 500):
        assert t_quantile(0.95, degrees) == pytest.approx(scipy.stats.t.ppf(0.95, degrees), rel=1e-7)


def test_upper_limit_of_p95_needs_59_values() -> None:
    assert percentile_interval(range(59), 95, 0.05) == (52, 58)
    assert percentile_interval(range(58), 95, 0.05)[1] == math.inf
    assert percentile_interval([1.0], 50, 0.05) == (-math.inf, math.inf)
    assert percentile_interval(range(20), 50, 0.05) == (5, 14)


def test_median_interval_covers_by_enumeration() -> None:
    values = range(1, 31)
    low, high = percentile_interval(values, 50, 0.05)
    assert scipy.stats.binom.cdf(low - 1, 30, 0.5) <= 0.05 and scipy.stats.binom.sf(high - 1, 30, 0.5) <= 0.05


def test_clusters_of_one_are_exact_and_equal_clusters_count_once() -> None:
    alone = [(1, 1)] * 17 + [(0, 1)] * 3
    assert clustered_rate(alone, 0.05) == pytest.approx(clopper_pearson(17, 20))
    assert clustered_rate([(5, 5)] * 20, 0.05) == pytest.approx(clopper_pearson(20, 20))
    assert clustered_rate([(5, 5)], 0.05) == (0.0, 1.0)
    low, high = clustered_rate([(5, 5), (0, 5)] * 10, 0.05)
    assert (low, high) == pytest.approx(clopper_pearson(10, 20), abs=0.02)


def test_clustered_interval_covers_rates_that_differ_by_prompt() -> None:
    draws, misses, runs = random.Random(3), [0, 0], 400
    for _ in range(runs):
        rates = [draws.betavariate(4, 1) for _ in range(30)]
        low, high = clustered_rate(
            [(sum(draws.random() < rate for _ in range(4)), 4) for rate in rates], 0.05
        )
        misses = [misses[0] + (low > 0.8), misses[1] + (high < 0.8)]
    assert max(misses) / runs <= 0.075, misses


def test_holm_is_its_step_down_definition() -> None:
    chances = [0.001, 0.015, 0.02, 0.4]
    rejected, left = holm(4, lambda i, error: chances[i] <= error, 0.05)
    assert rejected == {0: 0.0125, 1: pytest.approx(0.05 / 3), 2: 0.025} and left == 0.05
    assert holm(0, lambda i, error: True, 0.05) == ({}, 0.05)
    assert holm(2, lambda i, error: [0.03, 0.04][i] <= error, 0.05)[0] == {}


def test_two_pairs_exclude_nothing() -> None:
    from wirefault.stats.rates import paired_difference, unpaired_difference

    for difference in (paired_difference(0, 2, 0, 0), unpaired_difference(2, 2, 0, 2)):
        assert difference is not None and difference.low < 0 <= difference.high
    clear = paired_difference(0, 8, 0, 0)
    assert clear is not None and clear.high < 0
