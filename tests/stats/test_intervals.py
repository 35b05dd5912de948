import pytest

from wirefault.stats.intervals import percentile, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_wilson_gives_the_published_intervals(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_is_exact_at_the_ends_and_symmetric():
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert wilson(3, 10)[0] == pytest.approx(1 - wilson(7, 10)[1])


def test_less_confidence_is_narrower():
    assert wilson(8, 10, 0.5)[0] > wilson(8, 10)[0]


def test_no_data_is_none():
    assert wilson(0, 0) is None
    assert percentile([], 50) is None


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3)])
def test_what_is_no_share_is_refused(k, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(k, n)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (50.5, 51), (95, 95), (99, 99), (100, 100)]
)
def test_the_nearest_rank(percent, expected):
    assert percentile(range(100, 0, -1), percent) == expected


def test_the_percentile_of_one_value_is_that_value():
    assert {percentile([3.5], percent) for percent in (0, 50, 99, 100)} == {3.5}


@pytest.mark.parametrize("percent", [-1, 101])
def test_what_is_no_percentage_is_refused(percent):
    with pytest.raises(ValueError, match="no percentage"):
        percentile([1], percent)
