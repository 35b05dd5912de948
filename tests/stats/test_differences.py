import pytest

from wirefault.stats.differences import Difference, paired_difference, unpaired_difference


@pytest.mark.parametrize(
    ("pairs", "value", "low", "high"),
    [((36, 2, 12, 0), 0.2, 0.0569, 0.3404), ((1, 7, 1, 12), -0.2857, -0.5069, -0.0256)],
)
def test_a_paired_difference_has_the_published_interval(pairs, value, low, high):
    found = paired_difference(*pairs)
    assert (found.value, found.low, found.high) == pytest.approx((value, low, high), abs=5e-5)


def test_an_unpaired_difference_has_the_published_interval():
    found = unpaired_difference(48, 80, 56, 70)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_to_exchange_the_two_turns_the_interval_round():
    one, other = paired_difference(9, 4, 1, 6), paired_difference(9, 1, 4, 6)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))


def test_pairs_that_agree_narrow_the_interval():
    paired, unpaired = paired_difference(40, 5, 5, 50), unpaired_difference(45, 100, 45, 100)
    assert paired.high - paired.low < unpaired.high - unpaired.low


def test_what_all_or_none_succeeded_in_has_an_interval_within_the_shares():
    assert paired_difference(0, 1, 0, 0).low == -1.0
    assert paired_difference(5, 0, 0, 0).low < 0 < paired_difference(5, 0, 0, 0).high


def test_no_data_is_none():
    assert paired_difference(0, 0, 0, 0) is None
    assert unpaired_difference(0, 0, 1, 2) is None


def test_n_is_what_there_is_least_of():
    assert isinstance(found := unpaired_difference(1, 3, 1, 2), Difference) and found.n == 2
