"""Several agents under the same faults: figures of each, pairs that share the error, groups and advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import comb
from random import Random
from typing import Any

import pytest

from tests.support import replace
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Terms
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.logical_calls import FailedCalls, FailedTries, LogicalCall
from wirefault.experiments.measure import finite
from wirefault.experiments.tournament import Contestant, Pairing, Table, compared_pairs, table_of
from wirefault.history.judged_events import Costs, EpisodeJudged, Outcome
from wirefault.judging.writes import WriteCount
from wirefault.report.tournament import rows_of


def order(executed: int, maybe: int = 0, same: str = "tea") -> WriteCount:
    return WriteCount("POST /orders", "POST /orders of shop", same, executed, maybe)


def facts(outcomes: Sequence[Outcome], writes: Sequence[WriteCount] = (), **more: Any) -> ArmFacts:
    episodes = [
        EpisodeFacts(
            EpisodeJudged(0.0, f"order.r{number}", outcome), seconds=(1.0,), writes=tuple(writes), **more
        )
        for number, outcome in enumerate(outcomes, start=1)
    ]
    return ArmFacts(len(episodes), episodes)


def contestant(name: str, outcomes: Sequence[Outcome], *writes: WriteCount, **more: Any) -> Contestant:
    return Contestant(name, facts(outcomes, writes, **more), facts(["success"] * len(outcomes), [order(1)]))


def table(*arms: Contestant, **more: Any) -> Table:
    return table_of("method", arms, Terms(), **more)


def test_clear_winner_is_advised_and_losers_are_one_group() -> None:
    compared = table(
        contestant("none", ["false_success"] * 12, order(0)),
        contestant("keyed", ["success"] * 12, order(1)),
        contestant("retry", ["duplicate"] * 12, order(2)),
    )
    assert [each.arm for each in compared.standings] == ["keyed", "none", "retry"]
    assert compared.advice.startswith("Use keyed: it succeeds more often than each other arm, by at least ")
    assert [list(group) for group in compared.groups] == [["keyed"], ["none", "retry"]]
    assert [(pair.first, pair.second) for pair in compared.pairings if pair.differs] == [
        ("keyed", "none"),
        ("keyed", "retry"),
    ]


@pytest.mark.parametrize(
    ("writes", "none", "one", "more"),
    [
        ([order(0)], 1.0, 0.0, 0.0),
        ([order(1)], 0.0, 1.0, 0.0),
        ([order(2)], 0.0, 0.0, 1.0),
        ([order(1, same="with another id")], 0.0, 1.0, 0.0),
        ([order(0, maybe=1)], None, None, None),
    ],
)
def test_effects_of_each_order(writes: list[WriteCount], none: Any, one: Any, more: Any) -> None:
    figures = table(contestant("a", ["success"] * 4, *writes), contestant("b", ["success"] * 4)).standings
    of_a = next(each for each in figures if each.arm == "a").figures
    assert [finite(of_a[name].value) for name in ("no_effect", "one_effect", "more_effects")] == [
        none,
        one,
        more,
    ]
    assert of_a["no_effect"].n == 4


def test_swallowed_second_order_is_order_without_effect() -> None:
    """Keys by arguments take two equal orders for one, in calm too: the other arm shows what was wanted."""
    twice, once = facts(["success"] * 5, [order(2)]), facts(["failure"] * 5, [order(1)])
    compared = table(Contestant("by step", twice, twice), Contestant("by arguments", once, once))
    by_arm = {each.arm: each.figures for each in compared.standings}
    assert (by_arm["by step"]["one_effect"].value, by_arm["by step"]["more_effects"].value) == (1.0, 0.0)
    assert (by_arm["by arguments"]["one_effect"].value, by_arm["by arguments"]["no_effect"].value) == (
        0.5,
        0.5,
    )


def test_agent_that_writes_too_often_without_faults_does_not_set_what_is_wanted() -> None:
    once, hedged = facts(["success"] * 5, [order(1)]), facts(["duplicate"] * 5, [order(3)])
    by_arm = {
        each.arm: each.figures
        for each in table(Contestant("once", once, once), Contestant("hedged", hedged, hedged)).standings
    }
    assert (by_arm["once"]["one_effect"].value, by_arm["once"]["no_effect"].value) == (1.0, 0.0)
    assert by_arm["hedged"]["more_effects"].value == 1.0


def test_effects_are_unknown_where_unjudged_agents_differ_without_faults() -> None:
    once, hedged = facts(["unjudged"] * 5, [order(1)]), facts(["unjudged"] * 5, [order(3)])
    for standing in table(Contestant("once", once, once), Contestant("hedged", hedged, hedged)).standings:
        assert standing.figures["one_effect"].text == "no data"
    alone = table(Contestant("a", once, once), Contestant("b", once, once)).standings
    assert [each.figures["one_effect"].value for each in alone] == [1.0, 1.0]


def test_requests_layers_and_retry_after() -> None:
    call = LogicalCall("shop", "POST /orders", True, 1.0)
    failed = FailedCalls(1, 3, {"SDK": 2})
    tried = contestant(
        "a",
        ["success"] * 4,
        calls=(call, call),
        tries=FailedTries(2, 4),
        failed_calls=failed,
        retry_after=(1, 2),
    )
    figures = table(tried, contestant("b", ["success"] * 4)).standings[0]
    assert figures.figures["requests_per_call"].value == 2.0
    assert dict(figures.repeated_by) == {"SDK": 1.0}
    assert (figures.figures["retry_after_kept"].value, figures.figures["retry_after_kept"].n) == (0.5, 8)


def test_true_claims_are_counted_where_a_claim_can_be_checked() -> None:
    outcomes: list[Outcome] = ["success", "honest_failure", "false_success", "crash", "duplicate"]
    honest = table(contestant("a", outcomes), contestant("b", outcomes)).standings[0].figures["honest"]
    assert (honest.value, honest.n) == (2 / 3, 3)


def test_rate_is_shown_with_its_interval_once() -> None:
    compared = table(contestant("a", ["success", "failure", "failure"]), contestant("b", ["success"] * 3))
    columns, [*_, row] = rows_of(compared)  # by success
    assert row[columns.index("success_rate")] == "33.3 % (1 of 3) [1.7 %, 86.5 %]"


def test_undecided_pair_names_number_of_pairs() -> None:
    better: list[Outcome] = ["success"] * 10
    compared = table(contestant("a", better), contestant("b", [*better[:8], "failure", "failure"]))
    [pair] = compared.pairings
    assert not pair.differs and pair.needed and f"about {pair.needed} pairs would decide" in compared.advice
    assert [list(group) for group in compared.groups] == [["a", "b"]] and not compared.is_decided


def test_alike_arms_are_advised_by_cost() -> None:
    def costing(name: str, tokens: int) -> Contestant:
        same: list[Outcome] = ["success"] * 60
        arm = contestant(name, same)
        spent = [
            replace(each, judged=replace(each.judged, costs=Costs(replies=1, tokens_in=tokens + place % 3)))
            for place, each in enumerate(arm.faulted.episodes)
        ]
        return Contestant(name, ArmFacts(60, spent), arm.calm)

    compared = table(costing("dear", 900), costing("cheap", 100))
    assert compared.cost == "tokens" and compared.is_decided
    assert compared.advice == "Use cheap: dear and cheap succeed alike, and it costs least (tokens)."


def test_open_outcome_gives_no_advice() -> None:
    compared = table(contestant("a", ["unjudged"] * 8), contestant("b", ["success"] * 8))
    assert compared.advice.startswith("No advice") and not compared.is_decided


def test_interval_for_every_look_is_wider() -> None:
    arms = contestant("a", ["success"] * 20), contestant("b", ["failure"] * 20)
    once, at_looks = (table(*arms, until_decided=each).pairings[0].interval for each in (False, True))
    assert 0 < at_looks[0] < once[0]


def pairings(*arms: Sequence[bool]) -> list[Pairing]:
    """Pairings of arms by whether they succeeded in each episode."""
    successes = {str(arm): {str(place): ok for place, ok in enumerate(each)} for arm, each in enumerate(arms)}
    return list(compared_pairs(list(successes), successes, Terms(), until_decided=False))


def test_equal_arms_are_said_to_differ_as_often_as_documented() -> None:
    """Enumerated: one arm alone succeeds in half of the pairs, each as often."""
    n, wrong = 20, 0.0
    for discordant in range(n + 1):
        for won in range(discordant + 1):
            first = [place < won for place in range(n)]
            second = [won <= place < discordant for place in range(n)]
            [pairing] = pairings(first, second)
            wrong += pairing.differs * comb(n, discordant) * comb(discordant, won) / 2 ** (n + discordant)
    assert wrong == pytest.approx(0.0226, abs=0.0005)


@pytest.mark.parametrize(("arms", "n"), [(2, 60), (4, 30)])
def test_any_of_equal_arms_are_said_to_differ_in_at_most_5_percent(arms: int, n: int) -> None:
    runs, random = 200, Random(arms)
    wrong = 0
    for _ in range(runs):
        played = [[random.random() < 0.5 for _ in range(n)] for _ in range(arms)]
        wrong += any(pairing.differs for pairing in pairings(*played))
    assert wrong / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
