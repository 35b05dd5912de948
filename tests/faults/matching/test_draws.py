"""The draws of many entries for one try: each has its share, and they are independent."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.core.identity import digest
from wirefault.faults.matching.entry_index import Draws, bound_of, chance_of

TRIES = 10_000
NUMBERS = [int.from_bytes(digest(1, number), "big") for number in range(TRIES)]
NAMES = [f"status-{number}" for number in range(40)]


BOUNDS = st.one_of(st.integers(0, 2**64), st.sampled_from([0, 2**64]))


def draw(name: str, number: int) -> int:
    """By its definition: the upper half of a product modulo 2**128."""
    factor = int.from_bytes(digest(name, size=16), "big") | 1
    return factor * number % (1 << 128) >> 64


def met_names(probability: float) -> list[list[bool]]:
    """The names that are met, for each try."""
    draws = Draws(NAMES, [bound_of(probability)] * len(NAMES))
    below = [{place for place, _ in draws.below(number)} for number in NUMBERS]
    return [[place in below_bound for place in range(len(NAMES))] for below_bound in below]


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.9])
def test_each_fault_meets_its_probability(probability):
    shares = [fmean(column) for column in zip(*met_names(probability), strict=True)]
    deviation = math.sqrt(probability * (1 - probability) / TRIES)
    assert all(abs(share - probability) < 4 * deviation for share in shares)
    assert 0.4 < variance(shares) / deviation**2 < 2  # as scattered as by chance, no more and no less


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.9])
def test_number_of_joint_faults_is_binomial(probability):
    sums = [sum(row) for row in met_names(probability)]
    expected = len(NAMES) * probability * (1 - probability)
    assert 0.9 < variance(sums) / expected < 1.1


def test_tries_are_independent():
    rows = met_names(0.3)
    for column in zip(*rows, strict=True):
        both = sum(one and other for one, other in pairwise(column))
        assert abs(both - 0.09 * TRIES) < 4 * math.sqrt(TRIES * 0.09 * 0.91) * 1.2


@given(st.lists(st.tuples(st.text(), BOUNDS), max_size=20), st.integers(0, 2**64 - 1))
def test_batch_draws_equal_single_draws(given_draws, number):
    names, bounds = [name for name, _ in given_draws], [bound for _, bound in given_draws]
    each = [(place, draw(name, number)) for place, name in enumerate(names)]
    expected = [(place, drawn) for place, drawn in each if drawn < bounds[place]]
    assert list(Draws(names, bounds).below(number)) == expected


@given(st.text(), st.integers(0, 2**64 - 1), st.sampled_from([-1, 0, 1]))
def test_draw_is_compared_exactly_with_bound(name, number, more):
    drawn = draw(name, number)
    bound = min(max(drawn + more, 0), 1 << 64)
    assert bool(Draws([name], [bound]).below(number)) == (drawn < bound)


@given(st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_bound_is_probability(probability, drawn):
    assert (drawn < bound_of(probability)) == (chance_of(drawn) < probability)


@given(st.floats(0, 1))
def test_bound_is_exact_at_edge(probability):
    edge = bound_of(probability)
    assert edge == 0 or chance_of(edge - 1) < probability
    assert edge == 1 << 64 or chance_of(edge) >= probability
