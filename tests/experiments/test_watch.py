"""Abort conditions and limits over the episodes so far: when they end a run."""

from __future__ import annotations

import shutil
import tracemalloc
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from tests.experiments.recorded_runs import episode_events, write
from tests.experiments.test_run_experiment import planned
from tests.judging.oracle.histories import (
    ended,
    episode,
    exchange,
    judge_episode,
    run_finished,
    run_started,
)
from tests.support import replace
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.measure import Measure
from wirefault.experiments.safety import ABORT_NAMES, Safety, Spending
from wirefault.experiments.saved import ExperimentEnd
from wirefault.experiments.verdict import ArmResult, Judged, conclude, unwatched_bounds
from wirefault.experiments.watch import ArmSoFar, Watch, abort_reason, limit_reason, watched
from wirefault.history.events import Event, RunSealed
from wirefault.lab.own_lab import Halt
from wirefault.toxiproxy.planned import VERIFIED


def so_far(*outcomes: str, planned: int = 100) -> ArmSoFar:
    return ArmSoFar("method", planned, {str(place): outcome for place, outcome in enumerate(outcomes)})


CONDITIONS = [
    ("error_rate > 30 %", True),  # 24 of 40: at least 37 %, of which the invalid ones may be none
    ("error_rate > 50 %", False),
    ("invalid_share > 5 %", True),
    ("invalid_share >= 20 %", False),
    ("cost > 2", True),
    ("cost > 3", False),
    ("time > 1min", True),
    ("time > 2min", False),
    ("cost > 3 or time > 1min", True),
]


@pytest.mark.parametrize(("condition", "ends"), CONDITIONS)
def test_condition_aborts_run_when_true(condition: str, ends: bool) -> None:
    outcomes = ("crash", "failure", "misled", "success", "invalid") * 8
    figures = watched(so_far(*outcomes), cost=2.5, seconds=61)
    assert bool(abort_reason([condition], "method", figures)) is ends


def test_reason_names_condition_and_figure() -> None:
    figures = {"error_rate": Bounds(0.5, 0.75), "cost": exactly(3)}
    assert abort_reason(["cost > 4", "cost > 2"], "method", figures) == "cost > 2: cost 3 in method"


def test_small_sample_does_not_abort() -> None:
    conditions = ["error_rate > 50 %"]
    for all_episodes in (100, 9):
        figures = watched(so_far(*["crash"] * 9, planned=all_episodes), 0, 0)
        assert not abort_reason(conditions, "method", figures)
    assert abort_reason(conditions, "method", watched(so_far(*["crash"] * 10), 0, 0))
    chance = so_far(*["crash"] * 6, *["success"] * 4)  # an agent that fails in half of the cases
    assert not abort_reason(conditions, "method", watched(chance, 0, 0))


def test_agent_at_its_limit_is_seldom_aborted() -> None:
    chance, aborted, seen = Random(1), 0, dict[tuple[int, int], bool]()
    for _ in range(200):
        failures = 0
        for n in range(1, 301):
            failures += chance.random() < 0.2
            if n >= 10 and n % 10 == 0 and failures > 0.2 * n:
                if (failures, n) not in seen:
                    figures = watched(so_far(*["crash"] * failures, *["success"] * (n - failures)), 0, 0)
                    seen[failures, n] = bool(abort_reason(["error_rate > 20 %"], "method", figures))
                if seen[failures, n]:
                    aborted += 1
                    break
    # of 200 runs that err in 5 %, more than 18 do with a probability below 1 %
    assert aborted <= 18


def test_episodes_without_outcome_leave_error_rate_open() -> None:
    figures = watched(so_far(*("crash", "unjudged", "invalid", "success", "success") * 4), 0, 0)
    assert (figures["error_rate"].low, figures["error_rate"].high) == pytest.approx(
        (0.0302, 0.8622), abs=1e-4
    )
    assert not abort_reason(["error_rate > 20 %"], "method", figures)


def test_limit_is_reached_by_time_or_by_cost() -> None:
    limits = Spending(time="2min", cost=5)
    assert limit_reason(limits, cost=4.9, seconds=119) == ""
    assert "limit of time, 120 s" in limit_reason(limits, cost=0, seconds=120)
    assert "limit of cost, 5 USD" in limit_reason(limits, cost=5, seconds=0)
    assert limit_reason(Spending(), cost=1e9, seconds=1e9) == ""


HELD = Judged("held", "all held", [])


def test_end_of_run_decides() -> None:
    assert conclude(HELD, ExperimentEnd(), VERIFIED, {}).verdict == "held"
    assert conclude(HELD, ExperimentEnd(aborted="time > 1"), VERIFIED, {}).verdict == "aborted"
    limited = conclude(HELD, ExperimentEnd(limited="the limit of time"), VERIFIED, {})
    assert (limited.verdict, limited.because) == ("unknown", "the limit of time: not everything was run")


@pytest.mark.parametrize(
    ("rollback", "unwatched"), [("not verified: x", {}), (VERIFIED, {"abort: cost > 2": "no data for cost"})]
)
def test_unverified_or_unmeasured_is_not_held(rollback: str, unwatched: dict[str, str]) -> None:
    judged = conclude(HELD, ExperimentEnd(), rollback, unwatched)
    assert judged.verdict == "unknown" and [check.verdict for check in judged.checks] == ["unknown"]
    deviated = Judged("deviated", "it did", [])
    assert conclude(deviated, ExperimentEnd(), rollback, unwatched).verdict == "deviated"


def test_cost_without_prices_is_unmeasured() -> None:
    known, unknown = (
        ArmResult("method", ("r",), (), {"cost": Measure(bounds)}) for bounds in (exactly(1), None)
    )
    safety, limits = Safety(abort=["cost > 2", "time > 1min"]), Spending(cost=5)
    assert unwatched_bounds(safety, limits, [known]) == {}
    bounds = unwatched_bounds(safety, limits, [known, unknown])
    assert bounds == dict.fromkeys(("abort: cost > 2", "limits.cost: 5"), "no data for cost")
    assert unwatched_bounds(Safety(abort=["time > 1min"]), Spending(), [unknown]) == {}


def test_open_error_rate_judges_nothing() -> None:
    arms = [ArmResult("method", ("r",), (), {"success_rate": Measure(None), "cost": Measure(exactly(1))})]
    assert unwatched_bounds(Safety(abort=["error_rate > 50 %"]), Spending(), arms) == {}


@pytest.mark.parametrize("name", ABORT_NAMES)
def test_each_condition_aborts_or_reports_missing_data(name: str) -> None:
    assert {ends for condition, ends in CONDITIONS if condition.startswith(name)} == {True, False}
    arm = ArmResult("method", ("r",), (), dict.fromkeys(("success_rate", "cost"), Measure(None)))
    unwatched_names = unwatched_bounds(Safety(abort=[f"{name} > 1"]), Spending(), [arm])
    assert bool(unwatched_names) is (name == "cost")


def peak_of_a_look(folder: Path, runs: int) -> int:
    """The peak memory, in bytes, of reading this many recorded runs of an arm."""
    folder.mkdir()
    saved = planned(folder)
    arm = saved.plan.arms[0]
    for run_id in saved.next_run_ids(arm, runs):
        long = replace(ended(), response="x" * 10_000)
        episodes = [
            [*episode_events(str(number)), replace(long, episode=str(number))] for number in range(100)
        ]
        events = [run_started(100), *chain(*episodes), RunSealed({})]
        write(saved.plan.configuration.logs, run_id, events)
    watch = Watch(saved, Halt(), None)
    tracemalloc.start()
    try:
        watch.look(arm)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_continued_arm_is_not_read_at_once(tmp_path: Path) -> None:
    few, many = (peak_of_a_look(tmp_path / str(runs), runs) for runs in (5, 9))
    assert many - few < 1_000_000  # each of the four runs more has as much; some judgements are kept


def test_outcome_by_the_control_counts_as_in_the_result(tmp_path: Path) -> None:
    saved = planned(tmp_path, only=["1"], repeats=2)
    order = exchange("shop", method="POST", write=True, status=201, dialect="http", forwarded=True)
    for arm, orders in zip(saved.plan.arms[:2], ([order], [order, replace(order, start=104.0)]), strict=True):
        events: list[Event] = []
        for key in ("1", "1.r2"):
            of_episode = [replace(event, episode=key) for event in episode(*orders)]
            events += [*of_episode, replace(judge_episode(of_episode), t=1.0)]
        [run_id] = saved.next_run_ids(arm, 1)
        write(saved.plan.configuration.logs, run_id, [run_started(2), *events, run_finished()])
    watch = Watch(saved, Halt(), None)
    watch.look(saved.plan.arms[1])
    result = saved.arm_result(saved.plan.arms[1])
    assert set(watch.arm.outcomes.values()) == {"duplicate"}
    assert result.measures["duplicate"].bounds == exactly(2)


def test_sealed_run_is_read_once(tmp_path: Path) -> None:
    saved = planned(tmp_path)
    arm, logs = saved.plan.arms[0], saved.plan.configuration.logs
    [run_id] = saved.next_run_ids(arm, 1)
    write(logs, run_id, [run_started(1), *episode_events("1"), RunSealed({})])
    watch = Watch(saved, Halt(), None)
    watch.look(arm)
    assert watch.arm.outcomes.keys() == {"1"}
    shutil.rmtree(logs / "runs" / run_id)
    write(logs, run_id, [run_started(1), *episode_events("2")])
    watch.look(arm)
    assert watch.arm.outcomes.keys() == {"1"}
