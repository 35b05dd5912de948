"""Costs of failures, recovery times and the parts of recovery quality, by figures computed by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from tests.experiments.test_each_measure import (
    FAULTED_RIGHT,
    FAULTED_SILENT,
    FAULTED_TWICE,
    FAULTED_WRONG,
    MOSTLY_FINE,
    model_requests,
    quick,
)
from tests.experiments.test_measures import measured
from tests.experiments.test_outages import BACK, FINE, HIDDEN, INVALID, LOST
from tests.judging.oracle.histories import armed, ended, episode, exchange, fault_met, timeout, tried
from tests.judging.test_summary import GOOD, run
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.figures import against_control
from wirefault.experiments.means import Mean, MeanDifference, TimePercentile
from wirefault.experiments.outages import outages_in
from wirefault.judging.trace import traces
from wirefault.stats.survival import Duration

PRICES = '{"m": {"input": 2000000, "output": 4000000}}'  # two and four dollars a token
LOST_REPLY = model_requests(complete=(True, False))  # 10 tokens in, 5 out
REFUSED = model_requests(status=503, forwarded=False, tokens_in=None, tokens_out=None)
UNCOUNTED = model_requests(complete=(True, False), tokens_in=None, tokens_out=None)
THREE_TRIES = episode(
    exchange(status=503, ms=200.0, start=103.0),
    exchange(status=503, ms=300.0, start=104.0, try_=2),
    exchange(ms=100.0, start=105.0, try_=3),
    expect={},
)


@pytest.mark.parametrize(
    ("name", "episodes", "bounds", "text"),
    [
        ("tokens", [LOST_REPLY, GOOD], exactly(7.5), "7.5 (1 of 1 tries failed, in 1 of 2 episodes)"),
        (
            "tokens",
            [REFUSED, LOST_REPLY],
            exactly(7.5),
            "7.5 (2 of 2 tries failed, in 2 of 2 episodes, with a cost in 1)",
        ),
        ("tokens", [GOOD], exactly(0), "0 (0 of 0 tries failed, in 0 of 1 episodes)"),
        ("tokens", [UNCOUNTED], None, "no data: the tokens of a failed try are not known"),
        ("usd", [LOST_REPLY, GOOD], exactly(20), "20 (1 of 1 tries failed, in 1 of 2 episodes)"),
        ("usd", [model_requests(model="x", complete=(True, False))], None, None),
        ("seconds", [THREE_TRIES], exactly(0.5), "0.5 s (2 of 3 tries failed, in 1 of 1 episodes)"),
        (
            "seconds",
            [THREE_TRIES, INVALID],
            Bounds(0.25, math.inf),
            "0.25 s or more (2 of 3 tries failed, in 1 of 1 episodes)",
        ),
        ("seconds", [HIDDEN], None, "no data: not every episode shows which tries failed"),
    ],
)
def test_cost_of_faults(name: str, episodes: list[Any], bounds: Bounds | None, text: str | None) -> None:
    measure = measured(*episodes, prices=PRICES)[f"cost_of_faults_{name}"]
    assert measure.bounds == bounds
    assert text is None or measure.text == text


def test_money_without_prices_is_no_data() -> None:
    assert measured(LOST_REPLY)["cost_of_faults_usd"].bounds is None
    assert measured(LOST_REPLY)["cost_of_faults_tokens"].bounds == exactly(15)


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ('{"tokens": 10}', 0.5),
        ('{"tokens": 15}', 0),
        ('{"tokens": 12, "cost": 10}', 3),  # 40 of 10 dollars
        ('{"calls": 1}', 0),
    ],
)
def test_overshoot_is_of_the_budget_exceeded_most(limits: str, share: float) -> None:
    measures = measured(model_requests(), prices=PRICES, budgets=f'{{"episode": {limits}}}')
    assert measures["budget_overshoot"].bounds == exactly(share)
    assert measured(model_requests())["budget_overshoot"].bounds is None


def test_differences_are_paired_by_episode() -> None:
    measures = against_control(measured(quick(3000), quick(1000)), measured(quick(1000), quick(500)))
    assert measures["added_seconds"].bounds == exactly(1.25)
    assert measures["added_seconds"].text == "+1.25 s"
    assert measures["added_seconds"].episodes == ("001", "002")
    assert measures["added_cost"].bounds is None
    open_ = against_control(measured(quick(3000), INVALID), measured(quick(1000), quick(500)))
    assert open_["added_seconds"].bounds == Bounds(-math.inf, math.inf)


def test_interval_of_difference_is_narrower_than_of_its_means() -> None:
    before = {f"e{n}": (float(n), 1.0) for n in range(30)}
    after = {key: (value + 2 + (value % 3) / 10, 1.0) for key, (value, _) in before.items()}
    paired = MeanDifference(Mean(before), Mean(after)).interval(0.05)
    alone = Mean(after).interval(0.05)
    assert 2.0 < paired.low < 2.1 < paired.high < 2.2
    assert alone.high - alone.low > 4


def test_rare_cost_has_no_interval_until_five_episodes_had_it() -> None:
    sums = {f"e{n}": (float(n < 4), 1.0) for n in range(60)}
    assert Mean(sums, rare=True).interval(0.05) == Bounds(0, math.inf)
    assert Mean(sums, rare=True).needed("<=", 1.0, 0.05) == 75
    sums = {f"e{n}": (float(n < 5), 1.0) for n in range(60)}
    assert Mean(sums, rare=True).interval(0.05).high < 0.3


def test_availability_counts_calls_that_worked_in_the_end() -> None:
    measure = measured(THREE_TRIES, LOST, FINE)["availability"]
    assert (measure.bounds, measure.episodes) == (exactly(Fraction(2, 3)), ("002",))
    assert measure.text == "66.7 % (2 of 3 calls worked)"
    assert measured(THREE_TRIES, HIDDEN)["availability"].bounds == Bounds(0, 1)
    assert measured(GOOD)["availability"].bounds is None


def test_percentile_of_recovery_is_censored_by_failures_that_last() -> None:
    measures = measured(BACK, BACK, BACK, LOST)  # three recover after 2 s, one has not after 5 s
    assert measures["mttr_p50"].bounds == exactly(2)
    assert measures["mttr_p90"].bounds == Bounds(5, math.inf)
    assert measures["mttr_p90"].text == "5 s or more (4 failures)"
    assert measured(FINE)["mttr_p50"].bounds is None


def test_percentile_that_no_recovery_reaches_is_at_least_that_of_the_observed_times() -> None:
    given_up = {"a": [Duration(0.1, ended=False)] * 4, "b": [Duration(10.0, ended=False)]}
    assert TimePercentile(given_up, 50).bounds == Bounds(0.1, math.inf)  # the true one may be 0.2
    assert TimePercentile(given_up, 90).bounds == Bounds(10.0, math.inf)


def test_failures_of_one_episode_are_one_cluster() -> None:
    chance = [0.5 + n % 7 for n in range(40)]
    alone = {f"e{n}": [Duration(seconds, True)] for n, seconds in enumerate(chance)}
    alike = {f"e{n}": [Duration(seconds, True)] * 5 for n, seconds in enumerate(chance)}
    assert TimePercentile(alike, 50).interval(0.05) == TimePercentile(alone, 50).interval(0.05)


def test_outage_names_operation_and_fault() -> None:
    by_gateway = episode(
        exchange("calendar", status=503, fault=fault_met("unavailable"), target="/events/17", start=103.0),
        exchange("calendar", target="/events/17", start=104.0, try_=2),
        expect={},
    )
    by_toxic = episode(armed(timeout("message", "upstream")), tried(error="timeout"), expect={})
    [gateway, toxic] = [outage for trace in traces(run(by_gateway, by_toxic)) for outage in outages_of(trace)]
    assert gateway[:3] == ("calendar", "GET /events/*", "unavailable")
    assert toxic[2:] == ("timeout", "not_recovered")


def outages_of(trace: Any) -> list[tuple[str, str, str, str]]:
    [episode_outages] = outages_in([trace]).values()
    return [(each.link, each.operation, each.fault, each.end) for each in episode_outages.outages]


@pytest.mark.parametrize(
    ("name", "episodes", "bounds"),
    [
        ("correctness", [FAULTED_RIGHT, FAULTED_WRONG, FAULTED_RIGHT, GOOD], exactly(Fraction(2, 3))),
        ("completeness", [FAULTED_RIGHT, FAULTED_SILENT], exactly(Fraction(1, 2))),
        ("completeness", [FAULTED_RIGHT, INVALID], Bounds(Fraction(1, 2), 1)),
        ("efficiency", [MOSTLY_FINE], exactly(Fraction(9, 10))),
        ("consistency", [FAULTED_TWICE], exactly(0)),
        ("consistency", [FAULTED_RIGHT], None),  # its oracle asks for a value alone
        ("correctness", [GOOD], None),
    ],
)
def test_parts_of_recovery_quality(name: str, episodes: list[Any], bounds: Bounds | None) -> None:
    assert measured(*episodes)[f"recovery_{name}"].bounds == bounds


def test_absent_part_has_its_reason() -> None:
    assert measured(GOOD)["recovery_correctness"].text == "no data: no fault reached an episode"
    reason = "no data: no oracle asks for it in an episode that a fault reached"
    assert measured(FAULTED_RIGHT)["recovery_consistency"].text == reason


def test_slowdown_is_of_reached_episodes() -> None:
    slow = episode(
        tried(error="server_error", status=503),
        exchange(status=503, fault=fault_met()),
        ended(ms=3000.0),
        expect={},
    )
    measures = against_control(measured(slow, quick(9000)), measured(quick(1000), quick(1000)))
    assert measures["recovery_slowdown"].text == "3"
