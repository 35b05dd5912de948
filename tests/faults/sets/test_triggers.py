"""Triggers of faults: each alone, and together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wirefault.faults.sets.conditions import Moment, When, Window


def met_calls(when: When, *, calls: int = 10) -> list[int]:
    """The calls that meet the fault by a certain draw, each with one try."""
    numbers: list[int] = []
    for call in range(1, calls + 1):
        moment = Moment(call, call, met=len(numbers), last_met=numbers[-1] if numbers else 0)
        if when.holds(moment, 0.0):
            numbers.append(call)
    return numbers


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, list(range(1, 11))),
        ({"nth": 3}, [3]),
        ({"nth": "3"}, [3]),
        ({"nth": "2-4"}, [2, 3, 4]),
        ({"nth": "8-"}, [8, 9, 10]),
        ({"nth": [2, 4]}, [2, 3, 4]),
        ({"after": 7}, [8, 9, 10]),
        ({"first": 2}, [1, 2]),
        ({"every": 4}, [4, 8]),
        ({"at_most": 2}, [1, 2]),
        ({"cooldown": 2}, [1, 4, 7, 10]),
        ({"cooldown": 3, "at_most": 2}, [1, 5]),
        ({"nth": 4, "persistent": True}, list(range(4, 11))),
        ({"nth": 4, "persistent": True, "at_most": 3}, [4, 5, 6]),
        ({"after": 2, "first": 5}, [3, 4, 5]),
        ({"every": 2, "after": 5}, [6, 8, 10]),
        ({"probability": 0}, []),
    ],
)
def test_trigger_counts(options, calls):
    assert met_calls(When(**options)) == calls


def test_tries_of_call_share_number():
    second_try = Moment(calls=1, tries=2)
    assert When(nth=1).holds(second_try, 0)
    assert not When(nth=1, of="try").holds(second_try, 0)
    assert When(nth=2, of="try").holds(second_try, 0)


def test_cooldown_counts_calls_and_not_tries():
    assert When(cooldown=1).holds(Moment(calls=3, tries=4, met=1, last_met=3), 0)
    assert not When(cooldown=1).holds(Moment(calls=4, tries=5, met=1, last_met=3), 0)


@pytest.mark.parametrize(("turn", "holds"), [(1, False), (2, True), (3, True), (4, False)])
def test_trigger_turns(turn, holds):
    assert When(turns="2-3").holds(Moment(model_requests=turn), 0) is holds


@pytest.mark.parametrize(
    ("elapsed", "share"), [(0, 0), (4.9, 0), (5, 0), (6, 0.5), (7, 1), (9.9, 1), (10, 0)]
)
def test_window_with_ramp(elapsed, share):
    window = Window(start=5, end=10, ramp=2)
    assert window.share(elapsed) == share
    assert When(window=window).holds(Moment(elapsed_s=elapsed), 0.4) is (share > 0.4)


def test_window_without_end():
    assert Window(start=5).share(1e9) == 1


@given(probability=st.floats(0, 1), chance=st.floats(0, 1, exclude_max=True))
def test_chance_is_below_probability(probability, chance):
    assert When(probability=probability).holds(Moment(), chance) is (chance < probability)


@pytest.mark.parametrize(
    "options",
    [{"nth": 0}, {"nth": "x"}, {"nth": "0-3"}, {"probability": 1.1}, {"every": 0}, {"nht": 1},
     {"window": {"start": 3, "end": 3}}, {"of": "request"}, {"cooldown": 0}, {"nth": "4-2"}, {"nth": True},
     {"first": 2, "after": 2}, {"nth": 2, "after": 3}, {"nth": "2-3", "every": 4}, {"nth": "4-", "first": 3}],
)  # fmt: skip
def test_invalid_trigger_is_refused(options):
    with pytest.raises(ValidationError):
        When(**options)


def test_only_unconditional_fault_is_certain():
    assert When().certain
    assert not When(at_most=1).certain
    assert not When(probability=0.99).certain
