from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from wirefault.stats.rates import (
    Difference,
    paired_difference,
    paired_interval,
    percent,
    percentile,
    unpaired_difference,
    wilson,
)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_wilson_gives_published_intervals(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_is_exact_at_ends_and_symmetric():
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert wilson(3, 10)[0] == pytest.approx(1 - wilson(7, 10)[1])


def test_lower_confidence_narrows_interval():
    assert wilson(8, 10, 0.5)[0] > wilson(8, 10)[0]


def test_no_data_is_none():
    assert wilson(0, 0) is None
    assert percentile([], 50) is None


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_invalid_share_is_refused(k, n):
    with pytest.raises(ValueError, match="not a share"):
        wilson(k, n)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (50.5, 51), (95, 95), (99, 99), (100, 100)]
)
def test_nearest_rank(percent, expected):
    assert percentile(range(100, 0, -1), percent) == expected


def test_percentile_of_one_value_is_that_value():
    assert {percentile([3.5], percent) for percent in (0, 50, 99, 100)} == {3.5}


@pytest.mark.parametrize("percent", [-1, 101])
def test_invalid_percentage_is_refused(percent):
    with pytest.raises(ValueError, match="not a percentage"):
        percentile([1], percent)


def score_limit(gains: int, losses: int, n: int, error: float) -> float:
    """The upper limit by a likelihood that scipy maximises, with half a pair of continuity correction."""

    def excess(difference: float) -> float:
        def loss(rate: float) -> float:
            cells = (
                (gains, rate + difference),
                (losses, rate),
                (n - gains - losses, 1 - difference - 2 * rate),
            )
            return -sum(count * math.log(max(share, 1e-300)) for count, share in cells)

        most = (1 - difference) / 2
        rate = scipy.optimize.minimize_scalar(
            loss, bounds=(max(0.0, -difference), most), method="bounded", options={"xatol": 1e-12}
        ).x
        spread = math.sqrt(n * (2 * rate + difference * (1 - difference)))
        return (n * difference - gains + losses - 0.5) / spread - scipy.stats.norm.ppf(1 - error)

    return float(scipy.optimize.brentq(excess, (gains - losses) / n, 1 - 1e-9))


@pytest.mark.parametrize(("gains", "losses", "n"), [(12, 2, 50), (1, 7, 21), (20, 20, 200), (3, 1, 60)])
@pytest.mark.parametrize("error", [0.05, 0.005])
def test_paired_interval_is_score_interval(gains: int, losses: int, n: int, error: float) -> None:
    interval = paired_interval(losses, gains, n, 1 - 2 * error)
    expected = -score_limit(losses, gains, n, error), score_limit(gains, losses, n, error)
    assert interval == pytest.approx(expected, abs=1e-4)


def test_paired_interval_is_exact_where_nothing_was_gained_or_lost() -> None:
    assert paired_interval(0, 0, 59)[1] == pytest.approx(1 - 0.05 ** (1 / 59))
    assert paired_interval(3, 0, 60)[0] == pytest.approx(-scipy.stats.beta.ppf(0.95, 4, 57))


@pytest.mark.parametrize("n", [20, 60, 100])
def test_paired_interval_errs_in_at_most_1_15_times_its_share(n: int) -> None:
    """Enumerated over all counts, for differences from 0.5 % to 30 % and further discordant pairs."""
    cells = [(lost, won) for lost in range(n + 1) for won in range(n + 1 - lost)]
    limits = np.array([paired_interval(lost, won, n) for lost, won in cells])
    for difference in (0.005, 0.02, 0.05, 0.1, 0.3):
        for lost in (0.0, 0.005, 0.015, 0.03, 0.1, 0.3):
            chances = multinomial(cells, n, lost, lost + difference)
            errors = chances[limits[:, 0] > difference].sum(), chances[limits[:, 1] < difference].sum()
            assert max(errors) <= 1.15 * 0.05, (difference, lost)


def multinomial(cells: list[tuple[int, int]], n: int, lost: float, won: float) -> NDArray[np.float64]:
    counts = np.array([(first, second, n - first - second) for first, second in cells])
    return np.asarray(scipy.stats.multinomial.pmf(counts, n, [lost, won, 1 - lost - won]))


def unpaired_limit(first: tuple[int, int], second: tuple[int, int], error: float) -> float:
    """The upper limit of the rise by a likelihood that scipy maximises, with a continuity correction."""
    (k_1, n_1), (k_2, n_2) = first, second

    def excess(rise: float) -> float:
        def loss(rate: float) -> float:
            return -float(
                scipy.stats.binom.logpmf(k_1, n_1, rate) + scipy.stats.binom.logpmf(k_2, n_2, rate + rise)
            )

        ends = (max(0.0, -rise) + 1e-12, min(1.0, 1 - rise) - 1e-12)
        rate = scipy.optimize.minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
        spread = math.sqrt(rate * (1 - rate) / n_1 + (rate + rise) * (1 - rate - rise) / n_2)
        corrected = rise - (k_2 / n_2 - k_1 / n_1) - (1 / n_1 + 1 / n_2) / 2
        return corrected / spread - float(scipy.stats.norm.ppf(1 - error))

    return float(scipy.optimize.brentq(excess, k_2 / n_2 - k_1 / n_1, 1 - 1e-6))


@pytest.mark.parametrize(
    ("first", "second"),
    [((48, 80), (56, 70)), ((3, 60), (20, 40)), ((58, 60), (200, 240)), ((9, 10), (1, 30))],
)
def test_unpaired_difference_has_score_interval(first: tuple[int, int], second: tuple[int, int]) -> None:
    difference = unpaired_difference(*first, *second)
    expected = -unpaired_limit(second, first, 0.05), unpaired_limit(first, second, 0.05)
    assert difference is not None and (difference.low, difference.high) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("n_first", "n_second"), [(60, 60), (60, 20)])
def test_unpaired_difference_errs_in_at_most_its_share(n_first: int, n_second: int) -> None:
    """Enumerated over all counts, for rates from 0.5 % to 99.5 %."""
    highs = np.empty((n_first + 1, n_second + 1))
    for k_first, k_second in np.ndindex(highs.shape):
        difference = unpaired_difference(k_first, n_first, k_second, n_second)
        assert difference is not None
        highs[k_first, k_second] = difference.high
    for first in (0.005, 0.05, 0.2, 0.5, 0.8, 0.95):
        for second in (0.05, 0.2, 0.5, 0.9, 0.995):
            chances = np.outer(
                scipy.stats.binom.pmf(range(n_first + 1), n_first, first),
                scipy.stats.binom.pmf(range(n_second + 1), n_second, second),
            )
            assert chances[highs < second - first].sum() <= 0.05, (first, second)


def test_swapped_groups_negate_interval():
    one, other = paired_difference(9, 4, 1, 6), paired_difference(9, 1, 4, 6)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))


def test_agreeing_pairs_narrow_interval():
    paired, unpaired = paired_difference(40, 5, 5, 50), unpaired_difference(45, 100, 45, 100)
    assert paired.high - paired.low < unpaired.high - unpaired.low


def test_extreme_share_interval_stays_within_0_and_1():
    assert paired_difference(0, 1, 0, 0).low == -1.0
    assert paired_difference(5, 0, 0, 0).low < 0 < paired_difference(5, 0, 0, 0).high


def test_difference_without_data_is_none():
    assert paired_difference(0, 0, 0, 0) is None
    assert unpaired_difference(0, 0, 1, 2) is None


def test_n_is_size_of_smaller_group():
    assert isinstance(difference := unpaired_difference(1, 3, 1, 2), Difference) and difference.n == 2


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.0, None, "0 %"),
        (1.0, None, "100 %"),
        (1 - 1e-16, None, "100 %"),
        (0.81234, None, "81.2 %"),
        (0.99989, None, "99.99 %"),
        (0.0000123, None, "0.00123 %"),
        (0.81234, 0, "81 %"),
        (0.999, 0, "99.9 %"),
        (0.0004, 0, "0.04 %"),
        (0.0, 0, "0 %"),
        (1.0, 0, "100 %"),
    ],
)
def test_near_100_percent_is_not_rounded_to_100(share: float, decimals: int | None, text: str) -> None:
    assert percent(share, decimals=decimals) == text
