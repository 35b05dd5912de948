"""Kaplan-Meier against scipy, and what censoring does to means and percentiles."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from wirefault.stats.survival import (
    Duration,
    kaplan_meier,
    survival_limits,
    time_interval,
    time_percentile,
)


def sample(seed: int, n: int) -> list[Duration]:
    rng = np.random.default_rng(seed)
    times, limits = rng.exponential(2, n).round(1) + 0.1, rng.exponential(4, n).round(1) + 0.1
    return [Duration(float(min(t, c)), bool(t <= c)) for t, c in zip(times, limits, strict=True)]


@pytest.mark.filterwarnings("ignore:The confidence interval is undefined")
@pytest.mark.parametrize(("seed", "n"), [(1, 5), (2, 40), (3, 400)])
def test_estimate_and_limits_are_those_of_scipy(seed: int, n: int) -> None:
    durations = sample(seed, n)
    data = scipy.stats.CensoredData(
        uncensored=[d.seconds for d in durations if d.ended],
        right=[d.seconds for d in durations if not d.ended],
    )
    theirs = scipy.stats.ecdf(data).sf
    limits = theirs.confidence_interval(0.9, method="log-log")
    for step in kaplan_meier(durations):
        assert step.survival == pytest.approx(theirs.evaluate(step.seconds))
        if 0 < step.survival < 1:
            low, high = survival_limits(step, 0.9)
            assert low == pytest.approx(limits.low.evaluate(step.seconds))
            assert high == pytest.approx(limits.high.evaluate(step.seconds))


def test_percentile_that_was_not_reached_is_unknown() -> None:
    steps = kaplan_meier([Duration(1.0, ended=True), Duration(9.0, ended=False), Duration(9.0, ended=False)])
    assert time_percentile(steps, 30) == 1.0 and time_percentile(steps, 50) is None
    assert time_interval(steps, 50)[1] is None


def test_interval_of_median_covers_it() -> None:
    covered = 0
    for seed in range(300):
        low, high = time_interval(kaplan_meier(sample(seed, 60)), 50)
        covered += (low or 0.0) <= 2 * np.log(2) + 0.15 and (high or np.inf) >= 2 * np.log(2) + 0.05
    assert covered / 300 >= 0.85


def test_groups_of_one_have_greenwoods_variance() -> None:
    alone = sample(4, 50)
    grouped = [Duration(each.seconds, each.ended, str(n)) for n, each in enumerate(alone)]
    for one, other in zip(kaplan_meier(alone), kaplan_meier(grouped), strict=True):
        assert (other.survival, other.units) == (one.survival, one.units)
        assert other.greenwood == pytest.approx(one.greenwood * 50 / 49)


def test_alike_durations_of_a_group_count_once() -> None:
    alone = [Duration(each.seconds, each.ended, str(n)) for n, each in enumerate(sample(5, 30))]
    for one, other in zip(kaplan_meier(alone), kaplan_meier(alone * 4), strict=True):
        assert other.greenwood == pytest.approx(one.greenwood) and other.units == one.units


def test_all_recovered_at_once_has_exact_upper_limit() -> None:
    together = kaplan_meier([Duration(2.0, True)] * 20)
    assert survival_limits(together[-1], 0.9) == (0.0, pytest.approx(1 - 0.05 ** (1 / 20)))
    assert time_interval(together, 50) == (2.0, 2.0)
    assert time_interval(together, 95) == (2.0, None)
