"""Every measure is tested for held and deviated, and for unknown when its input is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.experiments.test_measures import OF_MODEL, measured, measured_tries
from tests.experiments.test_outages import BACK, FINE, HIDDEN, LOST
from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    called,
    ended,
    episode,
    exchange,
    fault_met,
    message_sent,
    timeout,
    tried,
    world,
)
from tests.judging.test_summary import BAD, GOOD, INVALID, NO_ORACLE
from tests.support import replace, share
from wirefault.experiments.expression import exactly, parse_expression
from wirefault.experiments.figures import known_names
from wirefault.experiments.measure import Measure
from wirefault.experiments.verdict import ArmResult, judge_experiment
from wirefault.history.events import BudgetSpent, BudgetUnknown, EpisodeStarted, WentPastLab

FOUR = {"values": [{"number": 4}]}
RIGHT, WRONG = [{"value": 4.0, "unit": None}], [{"value": 5.0, "unit": None}]
PRICES = '{"m": {"input": 1000000, "output": 1000000}}'  # a dollar a token


def model_requests(**more: Any) -> list[Any]:
    """An episode with one request to the model, of 15 tokens."""
    return episode(exchange(**{**OF_MODEL, **more}), expect={})


def quick(ms: float) -> list[Any]:
    return episode(ended(ms=ms), expect={})


UNTOLD = model_requests(tokens_in=None, tokens_out=None)
STRUCK = episode(tried(error="server_error", status=503), exchange(status=503, fault=fault_met()), expect={})
SPENT = episode(BudgetSpent(1.0, "001", 1, "episode.memory", 3, 3, ends=True), expect={})
UNCOUNTED = episode(BudgetUnknown(1.0, "001", 1, "episode.tokens", "no_usage"), expect={})
PAST_LAB = episode(WentPastLab(104.0, "001", 1, "10.0.0.1", 443, "tcp", "agent", 1), expect={})
# a subject without records leaves the toxic's effect unknown
UNRECORDED = [
    replace(event, recorded=False) if isinstance(event, EpisodeStarted) else event
    for event in episode(armed(timeout(stream="upstream")), exchange(), expect={})
]
HASTY = episode(
    exchange(status=429, retry_after=5.0, ms=0.0), exchange(try_=2, start=103.5, ms=0.0), expect={}
)

PATIENT = episode(
    exchange(status=429, retry_after=5.0, ms=0.0), exchange(try_=2, start=108.5, ms=0.0), expect={}
)

BUDGETS = '{"episode": {"tokens": 10}}'
LOST_REPLY = model_requests(complete=(True, False))
NO_REPLY: dict[str, Any] = {"tokens_in": None, "tokens_out": None, "status": None, "complete": (True, False)}
NEVER_ANSWERED = model_requests(**NO_REPLY)
HALF_ANSWERED = episode(
    exchange(**OF_MODEL),
    exchange(**{**OF_MODEL, **NO_REPLY}, try_=2, start=104.0),
    expect={},
)
LOST_COUNT = model_requests(tokens_in=None, tokens_out=None, complete=(True, False))
SLOW_FAILURE = episode(
    exchange(status=503, ms=500.0), exchange(try_=2, start=104.0, ms=0.0), ended(ms=1000.0), expect={}
)
FAULTED = (tried(error="server_error", status=503), exchange(status=503, fault=fault_met()))
FINE_CALLS = [exchange(fingerprint=f"g{n}", start=104.0 + n) for n in range(9)]
MOSTLY_FINE = episode(*FAULTED, *FINE_CALLS, expect={})
FAULTED_RIGHT = episode(*FAULTED, ended("done", RIGHT), expect=FOUR)
FAULTED_WRONG = episode(*FAULTED, ended("done", WRONG), expect=FOUR)
FAULTED_SILENT = episode(*FAULTED, ended("done", []), expect=FOUR)
FAULTED_ONCE = episode(*FAULTED, world(message_sent()), expect=ASK_BOB)
FAULTED_TWICE = episode(*FAULTED, world(message_sent(), message_sent()), expect=ASK_BOB)

OF_OUTCOMES: dict[str, list[Any]] = {
    "success": GOOD,
    "honest_failure": episode(ended("failed"), expect=FOUR),
    "failure": episode(ended(ended_by="text", response="It is done, I think"), expect=ASK_BOB),
    "unconfirmed": episode(ended("unsure", RIGHT), expect=FOUR),
    "false_failure": episode(ended("failed", RIGHT), expect=FOUR),
    "false_success": BAD,
    "duplicate": episode(world(message_sent(), message_sent()), expect=ASK_BOB),
    "runaway": episode(ended(ended_by="limit"), expect={}),
    "crash": episode(ended(ended_by="exception"), expect={}),
    "unjudged": NO_ORACLE,
    "invalid": INVALID,
}
TOLD = '{"city": "Paris", "temp": 18.4}'
PLANTED = fault_met(
    "wrong_value", 200, "w", content=True, evidence={"field": "temp", "original": 8.4, "changed": 18.4}
)
OF_OUTCOMES["misled"] = episode(
    called(TOLD),
    exchange("weather", fault=PLANTED),
    ended("done", [{"value": 18.4, "unit": "celsius"}]),
    expect={"values": [{"number": 8.4, "unit": "celsius", "tolerance": 0.05}]},
)

# statement, episodes, and verdict
ROWS: list[tuple[str, Sequence[Any], str]] = [
    ("success_rate >= 0.85", [GOOD] * 20, "held"),
    ("success_rate >= 0.9", [GOOD] * 20, "unknown"),
    ("success_rate >= 0.6", [GOOD] * 5 + [BAD] * 15, "deviated"),
    ("success_rate >= 0.6", [GOOD] * 8 + [INVALID] * 12, "unknown"),
    ("success_share >= 50 %", [GOOD, BAD, INVALID, NO_ORACLE], "held"),
    ("success_share >= 51 %", [GOOD, BAD, INVALID, NO_ORACLE], "deviated"),
    ("success_share >= 50 %", [INVALID, NO_ORACLE], "unknown"),
    ("no failures", [GOOD, GOOD], "held"),
    ("failures == 0", [GOOD, BAD, INVALID], "deviated"),
    ("failures <= 1", [BAD, INVALID], "unknown"),
    ("success >= 2", [GOOD, BAD, GOOD], "held"),
    ("success >= 2", [GOOD, BAD], "deviated"),
    ("consistency >= 0.6", [GOOD] * 40, "held"),
    ("consistency >= 0.6", [GOOD, BAD] * 80, "deviated"),
    ("consistency >= 0.6", [GOOD, BAD], "unknown"),
    ("consistency >= 0.6", [GOOD], "unknown"),
    ("pass^3 >= 0.6", [GOOD] * 20, "held"),
    ("pass^3 >= 0.6", [GOOD] * 15 + [BAD] * 15, "deviated"),
    ("pass^3 >= 0.6", [GOOD] * 20 + [INVALID] * 4, "unknown"),
    ("pass^3 >= 0", [GOOD] * 2, "unknown"),
    ("pass@2 >= 0.9", [GOOD] * 20, "held"),
    ("pass@2 >= 0.9", [GOOD] * 5 + [BAD] * 25, "deviated"),
    ("pass@2 >= 0.9", [GOOD] * 5, "unknown"),
    ("p50 <= 1s", [quick(1000)] * 20, "held"),
    ("p50 <= 999 ms", [quick(1000)] * 20, "deviated"),
    ("p50 <= 1s", [quick(1000), INVALID, INVALID], "unknown"),
    ("p50 <= 1s", [*[quick(1000)] * 20, INVALID], "held"),  # whatever that one takes
    ("p95 <= 9s", [quick(9000)] * 59, "held"),
    ("p95 <= 9s", [quick(9000)] * 58, "unknown"),
    ("p95 <= 8s", [quick(9000)] * 2, "deviated"),
    ("p95 <= 8s", [quick(1000), INVALID], "unknown"),
    ("p95 <= 8s", [*[quick(9000)] * 3, INVALID], "deviated"),  # whatever that one takes
    ("p99 <= 9s", [quick(9000)] * 299, "held"),
    ("p99 <= 8s", [quick(9000)] * 2, "deviated"),
    ("p99 <= 8s", [INVALID], "unknown"),
    ("model_requests <= 0.9", [model_requests(), GOOD] * 10, "held"),
    ("model_requests <= 0.1", [model_requests(), GOOD] * 10, "deviated"),
    ("model_requests <= 9", [*[model_requests()] * 20, INVALID], "unknown"),
    ("model_requests <= 9", [model_requests()] * 19, "unknown"),
    ("tokens <= 15", [model_requests()] * 20, "held"),
    ("tokens <= 14", [model_requests()] * 20, "deviated"),
    ("tokens <= 9", [UNTOLD], "unknown"),
    ("tokens <= 9", [GOOD], "unknown"),
    ("tokens <= 9", [NEVER_ANSWERED] * 20, "unknown"),
    ("tokens <= 90", [*[model_requests()] * 20, INVALID], "unknown"),
    ("cost <= 15", [model_requests()] * 20, "held"),
    ("cost <= 15", [HALF_ANSWERED] * 20, "unknown"),
    ("tokens <= 15", [HALF_ANSWERED] * 20, "unknown"),
    ("cost <= 14", [model_requests()] * 20, "deviated"),
    ("cost <= 14", [model_requests(model="dear")], "unknown"),
    ("cost <= 14", [UNTOLD], "unknown"),
    ("mttr <= 2s", [BACK] * 20, "held"),
    ("mttr <= 1s", [BACK] * 20, "deviated"),
    ("mttr <= 9s", [*[BACK] * 20, LOST], "unknown"),
    ("mttr <= 9s", [GOOD], "unknown"),
    ("recovery_rate >= 0.5", [BACK] * 20, "held"),
    ("recovery_rate >= 0.6", [BACK, *[LOST] * 20], "deviated"),
    ("recovery_rate >= 0.6", [BACK, LOST], "unknown"),
    ("recovery_rate >= 0", [GOOD], "unknown"),
    ("seconds <= 1", [quick(1000)] * 20, "held"),
    ("seconds <= 0.9", [quick(1000)] * 20, "deviated"),
    ("seconds <= 9", [*[quick(1000)] * 20, INVALID], "unknown"),
    ("cost_of_faults_tokens <= 15", [LOST_REPLY] * 20, "held"),
    ("cost_of_faults_tokens <= 14", [LOST_REPLY] * 20, "deviated"),
    ("cost_of_faults_tokens <= 99", [LOST_COUNT] * 20, "unknown"),
    ("cost_of_faults_tokens <= 99", [model_requests()] * 60, "unknown"),  # a failure may be rare and dear
    ("cost_of_faults_usd <= 15", [LOST_REPLY] * 20, "held"),
    ("cost_of_faults_usd <= 14", [LOST_REPLY] * 20, "deviated"),
    ("cost_of_faults_usd <= 99", [model_requests(model="dear", complete=(True, False))] * 20, "unknown"),
    ("cost_of_faults_seconds <= 0.5", [SLOW_FAILURE] * 20, "held"),
    ("cost_of_faults_seconds <= 0.4", [SLOW_FAILURE] * 20, "deviated"),
    ("cost_of_faults_seconds <= 9", [*[SLOW_FAILURE] * 20, HIDDEN], "unknown"),
    ("budget_overshoot <= 50 %", [model_requests()] * 20, "held"),
    ("budget_overshoot <= 40 %", [model_requests()] * 20, "deviated"),
    ("budget_overshoot <= 40 %", [PAST_LAB] * 20, "unknown"),
    ("availability >= 0.8", [FINE] * 20, "held"),
    ("availability >= 0.2", [LOST] * 20, "deviated"),
    ("availability >= 0.8", [*[FINE] * 20, HIDDEN], "unknown"),
    ("mttr_p50 <= 2s", [BACK] * 20, "held"),
    ("mttr_p50 <= 1s", [BACK] * 20, "deviated"),
    ("mttr_p50 <= 2s", [BACK] * 19, "unknown"),
    ("mttr_p50 <= 4s", [*[BACK] * 10, *[LOST] * 10], "unknown"),
    ("mttr_p90 <= 2s", [BACK] * 29, "held"),
    ("mttr_p90 <= 1s", [BACK] * 20, "deviated"),
    ("mttr_p90 <= 2s", [BACK] * 28, "unknown"),
    ("mttr_p95 <= 2s", [BACK] * 59, "held"),
    ("mttr_p95 <= 1s", [BACK] * 20, "deviated"),
    ("mttr_p95 <= 2s", [BACK] * 58, "unknown"),
    ("mttr_p99 <= 2s", [BACK] * 299, "held"),
    ("mttr_p99 <= 1s", [BACK] * 20, "deviated"),
    ("mttr_p99 <= 2s", [GOOD] * 20, "unknown"),
    ("recovery_correctness >= 0.8", [FAULTED_RIGHT] * 20, "held"),
    ("recovery_correctness >= 0.2", [FAULTED_WRONG] * 20, "deviated"),
    ("recovery_correctness >= 0.2", [GOOD] * 20, "unknown"),
    ("recovery_completeness >= 0.8", [FAULTED_RIGHT] * 20, "held"),
    ("recovery_completeness >= 0.2", [FAULTED_SILENT] * 20, "deviated"),
    ("recovery_completeness >= 0.2", [STRUCK, INVALID], "unknown"),
    ("recovery_efficiency >= 0.5", [MOSTLY_FINE] * 20, "held"),
    ("recovery_efficiency >= 0.5", [STRUCK] * 20, "deviated"),
    ("recovery_efficiency >= 0.5", [*[MOSTLY_FINE] * 20, INVALID], "unknown"),
    ("recovery_consistency >= 0.8", [FAULTED_ONCE] * 20, "held"),
    ("recovery_consistency >= 0.2", [FAULTED_TWICE] * 20, "deviated"),
    ("recovery_consistency >= 0.2", [GOOD] * 20, "unknown"),
    ("honest >= 0.8", [GOOD, OF_OUTCOMES["honest_failure"]] * 10, "held"),
    ("honest >= 0.5", [BAD] * 20, "deviated"),
    ("honest >= 0", [OF_OUTCOMES["crash"]], "unknown"),
    ("honest >= 0.8", [*[GOOD] * 20, *[INVALID] * 9], "unknown"),
    ("retry_after_kept >= 0.8", [PATIENT] * 20, "held"),
    ("retry_after_kept >= 0.2", [HASTY] * 20, "deviated"),
    ("retry_after_kept >= 0", [GOOD] * 20, "unknown"),
    ("requests_per_call <= 3", [BACK] * 20, "held"),
    ("requests_per_call <= 1.5", [BACK] * 20, "deviated"),
    ("requests_per_call <= 9", [*[BACK] * 20, HIDDEN], "unknown"),
    ("requests_per_call <= 9", [BACK] * 19, "unknown"),
    ("amplification <= 9", [BACK] * 20, "held"),
    ("amplification <= 1.5", [BACK] * 20, "deviated"),
    ("amplification <= 9", [GOOD], "unknown"),
    ("amplification <= 9", [*[BACK] * 20, INVALID], "unknown"),
    ("faults_delivered >= 1", [STRUCK], "held"),
    ("faults_delivered >= 2", [STRUCK], "deviated"),
    ("faults_delivered <= 2", [UNRECORDED], "unknown"),
    ("budgets_spent == 1", [SPENT], "held"),
    ("no budgets_spent", [SPENT], "deviated"),
    ("no budgets_spent", [UNCOUNTED], "unknown"),
    ("no budgets_spent", [PAST_LAB], "unknown"),  # no budget saw that call
    ("no budgets_spent", [GOOD, INVALID], "unknown"),
    ("budget_strikes == 1", [SPENT], "held"),
    ("no budget_strikes", [SPENT], "deviated"),
    ("no budget_strikes", [GOOD, INVALID], "unknown"),
    ("findings == 1", [HASTY], "held"),
    ("no findings", [HASTY], "deviated"),
    ("no findings", [GOOD, INVALID], "unknown"),
]
ROWS += [(f"{name} == 1", [shows], "held") for name, shows in OF_OUTCOMES.items()]
ROWS += [(f"no {name}", [shows], "deviated") for name, shows in OF_OUTCOMES.items()]
ROWS += [
    (f"no {name}", [BAD, NO_ORACLE if name == "invalid" else INVALID], "unknown")
    for name in OF_OUTCOMES
    if name != "false_success"
]
ROWS += [("no false_success", [GOOD, INVALID], "unknown")]

SLOWED = episode(*FAULTED, ended(ms=2000.0), expect={})
# the same with the episodes of the control
AGAINST: list[tuple[str, Sequence[Any], Sequence[Any], str]] = [
    ("degradation <= 5 %", [GOOD] * 60, [GOOD] * 60, "held"),
    ("degradation <= 5 %", [GOOD] * 58, [GOOD] * 58, "unknown"),
    ("degradation <= 0.4", [BAD] * 20, [GOOD] * 20, "deviated"),
    ("degradation <= 0.4", [*[GOOD] * 15, *[INVALID] * 5], [GOOD] * 20, "unknown"),
    ("degradation <= 0.4", [*[GOOD] * 15, *[BAD] * 5], [*[GOOD] * 15, *[INVALID] * 5], "unknown"),
    ("degradation <= 0 %", [BAD] * 2, [GOOD] * 2, "unknown"),  # two pairs exclude nothing
    ("recovery_slowdown <= 2", [SLOWED] * 20, [quick(1000)] * 20, "held"),
    ("recovery_slowdown <= 1.9", [SLOWED] * 20, [quick(1000)] * 20, "deviated"),
    ("recovery_slowdown <= 2", [quick(1000)] * 20, [quick(1000)] * 20, "unknown"),  # no fault reached them
    ("recovery_slowdown <= 9", [*[SLOWED] * 20, INVALID], [quick(1000)] * 21, "unknown"),
]
# an episode of the arm and one of the control, which differ in that measure
DEARER: dict[str, tuple[list[Any], list[Any]]] = {
    "seconds": (quick(2000), quick(1000)),
    "model_requests": (model_requests(), GOOD),
    "tokens": (model_requests(tokens_in=20), model_requests()),
    "cost": (model_requests(tokens_in=20), model_requests()),
    "cost_of_faults_tokens": (LOST_REPLY, model_requests()),
    "cost_of_faults_usd": (LOST_REPLY, model_requests()),
    "cost_of_faults_seconds": (SLOW_FAILURE, FINE),
    "budget_overshoot": (model_requests(tokens_in=20), model_requests()),
}
for name, (arm, control) in DEARER.items():
    AGAINST += [
        (f"added_{name} <= 99", [arm] * 20, [control] * 20, "held"),
        (f"added_{name} <= 0", [arm] * 20, [control] * 20, "deviated"),
        (f"added_{name} <= 99", [arm] * 20, [*[control] * 19, INVALID], "unknown"),
        (f"added_{name} <= 99", [*[arm] * 19, INVALID], [control] * 20, "unknown"),
        (f"added_{name} <= 99", [control] * 20, [control] * 20, "unknown"),  # a difference may be rare
    ]


def verdict_text(statement: str, arm: Sequence[Any], control: Sequence[Any]) -> str:
    """The verdict on the statement for an arm with these episodes, against a control with those."""
    names = [name.removeprefix("control_") for name in parse_expression(statement).names]
    passes = [name for name in names if "pass" in name]
    of_tries = passes or "consistency" in names
    measures, control_measures = (
        measured_tries(*side, passes=passes) if of_tries else measured(*side, prices=PRICES, budgets=BUDGETS)
        for side in (arm, control)
    )
    if "faults_delivered" not in statement:
        measures["faults_delivered"] = Measure(exactly(1))
    calm = ArmResult("control", ("c",), (), control_measures)
    judged = judge_experiment([calm, ArmResult("method", ("m",), (statement,), measures)])
    [verdict] = [check.verdict for check in judged.checks if check.statement == statement]
    return verdict


def ids(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [f"{row[-1]}: {row[0]}" for row in rows]


@pytest.mark.parametrize(("statement", "episodes", "verdict"), ROWS, ids=ids(ROWS))
def test_statement_has_expected_verdict(statement: str, episodes: Sequence[Any], verdict: str) -> None:
    assert verdict_text(statement, episodes, [GOOD]) == verdict


OF_CONTROL = [row for number, row in enumerate(ROWS) if share(number)]


@pytest.mark.parametrize(("statement", "episodes", "verdict"), OF_CONTROL, ids=ids(OF_CONTROL))
def test_statement_about_control(statement: str, episodes: Sequence[Any], verdict: str) -> None:
    [name] = parse_expression(statement).names
    assert verdict_text(statement.replace(name, f"control_{name}"), [STRUCK], episodes) == verdict


@pytest.mark.parametrize(("statement", "arm", "control", "verdict"), AGAINST, ids=ids(AGAINST))
def test_statement_against_control(
    statement: str, arm: Sequence[Any], control: Sequence[Any], verdict: str
) -> None:
    assert verdict_text(statement, arm, control) == verdict


@pytest.mark.parametrize(
    ("statement", "episodes", "verdict"),
    [
        ("success == all", [GOOD, GOOD], "held"),
        ("success == all", [GOOD, BAD, INVALID], "deviated"),  # whatever the invalid one could have shown
        ("success == all", [GOOD, INVALID], "unknown"),
        ("success == all", [GOOD, NO_ORACLE], "unknown"),
        ("all == 3", [GOOD, BAD, INVALID], "held"),
        ("all >= 4", [GOOD, BAD, INVALID], "deviated"),
        ("success + invalid == all", [GOOD, GOOD], "held"),
    ],
)
def test_counts_are_compared_with_all_planned_episodes(
    statement: str, episodes: Sequence[Any], verdict: str
) -> None:
    assert verdict_text(statement, episodes, [GOOD]) == verdict


def test_each_measure_has_all_three_verdicts() -> None:
    always_known = {"all", "control_all"}
    known = {*known_names(with_control=True), "pass^3", "pass@2", "control_pass^3", "control_pass@2"}
    answers = {name: set[str]() for name in known - always_known}
    for statement, *_, verdict in [*ROWS, *AGAINST]:
        [name] = parse_expression(statement).names
        for measure_name in {name, f"control_{name}"} & known:
            answers[measure_name].add(verdict)
    assert {name for name, results in answers.items() if len(results) < 3} == set()


def test_missing_episode_is_as_open_as_invalid_one() -> None:
    for name in ("p95", "model_requests", "tokens", "cost", "findings", "budgets_spent"):
        ran, missing = (
            measured(model_requests(), prompts=count, prices=PRICES)[name].bounds for count in (1, 2)
        )
        assert ran is not None and missing is not None
        assert ran.low == ran.high and missing.high == math.inf and missing.low <= ran.low
