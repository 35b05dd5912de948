"""Experiments until decided: looks after whole passes, the same decisions in any order and after a break."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.dealer import Dealer, on_paper, sometimes
from tests.experiments.test_run_experiment import planned, run_on_paper
from wirefault.core.errors import InputError
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.cost import claim_lines, estimated
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.index import RunCost, last_run_of
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.run_experiment import run_experiment
from wirefault.experiments.saved import SavedExperiment, load_saved
from wirefault.experiments.sequential import (
    SequentialPlan,
    SequentialState,
    follow,
    sequential_claims,
    why_not_sequential,
)
from wirefault.history.events import EpisodeJudged
from wirefault.history.judged_events import Outcome
from wirefault.report.experiment_plan import population_line

KEYS = [f"p{place}" for place in range(400)]
Fate = Callable[[str, int], Outcome]


def looked_at(
    claims: dict[str, list[str]], fate: Fate, *, every: int = 4, until: int = 400
) -> SequentialState:
    """The state of an experiment whose episodes end by ``fate`` of arm and place, up to some number."""
    parsed = {
        arm: [claim for text in texts for claim in sequential_claims(text)] for arm, texts in claims.items()
    }

    def first_episodes(arm: str, count: int) -> ArmFacts:
        episodes = [
            EpisodeFacts(EpisodeJudged(0.0, KEYS[at], fate(arm, at)), seconds=(1.0,))
            for at in range(min(count, until))
        ]
        return ArmFacts(count, episodes)

    return follow(SequentialPlan(parsed, KEYS, every, "control"), first_episodes)


def succeeds(arm: str, place: int) -> Outcome:
    return "success"


def fails_in_arms(arm: str, place: int) -> Outcome:
    return "success" if arm == "control" else "failure"


def test_certain_success_is_held_and_certain_failure_deviates() -> None:
    claims = {"control": [], "a": ["success_rate >= 0.9"]}
    good, bad = (
        looked_at(claims, fate).decisions["a"]["success_rate >= 0.9"] for fate in (succeeds, fails_in_arms)
    )
    assert (good.verdict, good.n, bad.verdict, bad.n) == ("held", 44, "deviated", 4)
    assert "a fixed number takes 29" in good.message and "in 44" in str(good.measured)


def test_looks_happen_after_whole_passes_only() -> None:
    claims = {"control": [], "a": ["success_rate >= 0.9"]}
    for every in (1, 5, 40):
        n = looked_at(claims, fails_in_arms, every=every).decisions["a"]["success_rate >= 0.9"].n
        assert n % every == 0


def test_decided_arm_runs_no_further_block() -> None:
    claims = {"control": [], "a": ["success_rate >= 0.9"], "b": ["success_rate >= 0.5"]}

    def fate(arm: str, place: int) -> Outcome:
        return "failure" if arm == "a" or (arm == "b" and place % 3 == 0) else "success"

    extents = looked_at(claims, fate).extents
    assert extents["a"] == 8 < extents["b"] == extents["control"]


def test_incomplete_block_is_the_current_one() -> None:
    claims = {"control": [], "a": ["success_rate >= 0.9"]}
    state = looked_at(claims, succeeds, until=13)
    assert state.running == ("control", "a") and state.extents == {"control": 16, "a": 16}
    assert state.decisions["a"]["success_rate >= 0.9"].n == 8


def test_deviations_of_several_arms_share_the_error() -> None:
    def decided(count: int) -> int:
        claims = {"control": [], **{f"a{place}": ["success_rate >= 0.9"] for place in range(count)}}
        return looked_at(claims, fails_in_arms, every=1).decisions["a0"]["success_rate >= 0.9"].n

    assert decided(1) < decided(20)


def test_open_episodes_count_against_both_verdicts() -> None:
    claims = {"control": [], "a": ["success_rate >= 0.5"]}
    state = looked_at(claims, lambda arm, place: "unjudged")
    assert state.decisions["a"]["success_rate >= 0.5"].verdict == "unknown" and not state.running


def test_differences_are_paired_with_the_control() -> None:
    claims = {"control": [], "a": ["degradation <= 5 %"]}
    assert looked_at(claims, succeeds).decisions["a"]["degradation <= 5 %"].verdict == "held"
    assert looked_at(claims, fails_in_arms).decisions["a"]["degradation <= 5 %"].verdict == "deviated"
    both = looked_at(claims, lambda arm, place: "failure" if place % 2 else "success")
    assert both.decisions["a"]["degradation <= 5 %"].verdict == "held"


def test_control_without_steady_state_ends_it() -> None:
    claims = {"control": ["success_rate >= 0.9"], "a": ["success_rate >= 0.9"]}
    state = looked_at(claims, lambda arm, place: "failure" if arm == "control" else "success")
    assert not state.running and not state.has_steady_state and state.extents["a"] == 8


def test_percentile_is_rate_of_episodes_within_limit() -> None:
    claims = {"control": [], "a": ["p95 <= 2 s", "p50 < 1 s"]}
    decisions = looked_at(claims, succeeds).decisions["a"]
    assert (decisions["p95 <= 2 s"].verdict, decisions["p50 < 1 s"].verdict) == ("held", "deviated")
    [slow] = sequential_claims("p95 > 500 ms")
    assert (
        slow is not None
        and not slow.above
        and (slow.threshold, slow.limit, slow.strict) == (0.95, 0.5, False)
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tokens <= 500", "tokens cannot be decided sequentially: state one of success_rate, p50"),
        ("control_p95 <= 1 s", "control_p95 cannot be decided"),
        ("success_rate >= 0.9 where faulted", "about all episodes: leave `where: faulted` out"),
        ("success_rate >= 0.9 or p95 <= 1s", "one measure with one number"),
        ("success_rate - control_success_rate >= -0.1", "one measure with one number"),
        ("success_rate >= 0.9 and mttr <= 1s", "mttr cannot be decided"),
        ("success_rate >= 1", "no number of episodes decides success_rate at the end of its range"),
    ],
)
def test_claims_that_no_sequential_test_decides_are_refused(text: str, why: str) -> None:
    assert why in why_not_sequential(text, 1) and "or use fixed `repeats`" in why_not_sequential(text, 1)


@pytest.mark.parametrize(
    ("key", "line"), [("hypothesis", 8), ("steady_state", 5), ("of the arm", 11), ("checks", 13)]
)
def test_refused_claim_has_its_line(key: str, line: int, tmp_path: Path) -> None:
    texts = {
        name: "mean(tokens) <= 5" if name == key else "no crash"
        for name in ("hypothesis", "of the arm", "checks")
    }
    steady = "tokens <= 5" if key == "steady_state" else "success_share >= 50 %"
    (tmp_path / "exp.yaml").write_text(
        "title: On paper\n"
        "only: ['1', '2']\n"
        "until_decided: true\n"
        "steady_state:\n"
        f"  - {steady}\n"
        "hypothesis:\n"
        "  - success_rate >= 0.9\n"
        f"  - {texts['hypothesis']}\n"
        "method:\n"
        "  settings: {error_prob: 1}\n"
        f"  hypothesis: [{texts['of the arm']}]\n"
        "checks:\n"
        f"  - {texts['checks']}\n"
    )
    with pytest.raises(InputError, match=rf"exp.yaml:{line}: .*tokens\)? <= 5: tokens cannot be decided"):
        plan_experiment(load_experiment(tmp_path / "exp.yaml"), {"LOGS_DIR": str(tmp_path)})


@pytest.mark.parametrize("text", ["no crash", "success == all", "p95 <= 1 s and no crash"])
def test_checks_and_claims_of_episodes_are_accepted(text: str) -> None:
    assert why_not_sequential(text, 1) == ""
    assert "prompt_limit" in why_not_sequential("p95 <= 1 s", 2)


def sequential_experiment(folder: Path, **more: Any) -> SavedExperiment:
    folder.mkdir(exist_ok=True)
    hypothesis = ["success_rate >= 0.6", "success_rate <= 0.95"]
    return planned(folder, until_decided=True, **{"hypothesis": hypothesis, **more})


def decisions(saved: SavedExperiment) -> object:
    saved = load(saved)
    method = saved.arm_result(saved.plan.arms[1])
    return method.decisions, {
        arm.name: sorted(each.key for each in saved.prompts_of(arm)) for arm in saved.plan.arms
    }


def test_prompts_like_these_are_drawn_and_looked_at_one_by_one(tmp_path: Path) -> None:
    results = []
    for workers in (1, 3):
        saved = sequential_experiment(
            tmp_path / str(workers), limits={"episodes": 300}, seed=4, population="like_these"
        )
        keys = [prompt.key for prompt in saved.plan.prompts]
        assert len(set(keys)) == 300 and keys[:4] != [keys[0], keys[1], f"{keys[0]}.r2", f"{keys[1]}.r2"]
        run_experiment(saved, on_paper(), Dealer(sometimes, workers))
        results.append(decisions(saved))
    assert results[0] == results[1] and "decided after" in str(results[0])
    assert saved.plan.sequential is not None and saved.plan.sequential.every == 1
    assert "prompts drawn from these 2 with replacement" in population_line(saved.plan)


def test_prompts_with_the_same_text_are_one_cluster_of_prompts_like_these(tmp_path: Path) -> None:
    texts = {"a": "One", "b": "Two", "c": "One ", "d": "One"}
    prompts = [{"id": key, "prompt": text} for key, text in texts.items()]
    for population, keys in (
        ("these", ["a", "b", "c", "d", "a.r2", "b.r2", "c.r2", "d.r2"]),
        ("like_these", ["a", "b", "a.r2", "a.r3", "a.r4", "b.r2", "a.r5", "a.r6"]),
    ):
        saved = planned(tmp_path, prompts=prompts, only=[], repeats=2, population=population)
        assert [prompt.key for prompt in saved.plan.prompts] == keys
    assert saved.plan.notes == ("prompts with the text of an earlier one count as its repeats: c, d",)
    assert "prompts like these 2" in population_line(saved.plan)


def load(saved: SavedExperiment) -> SavedExperiment:
    return load_saved(saved.logs, saved.experiment_id, {"LOGS_DIR": str(saved.logs)})


def test_time_limit_leaves_claims_open_and_can_be_resumed(tmp_path: Path) -> None:
    limits = {"time": 1e-9, "episodes": 300}
    saved = sequential_experiment(tmp_path, limits=limits, hypothesis=["success_rate >= 0.4"])
    result = run_experiment(saved, on_paper(), Dealer(sometimes))
    assert result.as_json()["verdict"] == "unknown" and result.can_be_resumed
    for _ in range(100):
        run_experiment(load(saved), on_paper(), Dealer(sometimes))
        if "decided after" in str(decisions(saved)):
            return
    pytest.fail("no decision in 100 runs")


def test_blast_radius_of_episodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a share of a fixed number"):
        sequential_experiment(tmp_path, safety={"blast_radius": {"episodes": 0.5}})


def test_experiment_without_faults_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs an arm with faults"):
        planned(tmp_path, until_decided=True, method=None, hypothesis=[], checks=["no crash"])


def test_plan_estimates_cost_from_earlier_run(tmp_path: Path) -> None:
    saved = sequential_experiment(tmp_path, limits={"episodes": 300})
    assert "unknown, since it has not run here yet" in "\n".join(claim_lines(saved.plan, None))
    unknown = "cost: at most 900 episodes, time unknown, money unknown, it has not run here yet"
    assert estimated(saved.plan, None).text == unknown
    run_experiment(saved, on_paper(), Dealer(sometimes))
    last = last_run_of(saved.logs, "On paper")
    assert "as in e" in "\n".join(claim_lines(saved.plan, last))
    after = estimated(saved.plan, last).text
    assert re.fullmatch(r"cost: about \d+ episodes, about [\d.]+ s, money unknown, as in e.*", after)
    assert last is not None and last.estimates["control"]["success_rate"] == 1.0


def test_plan_estimates_money_where_every_arm_has_cost(tmp_path: Path) -> None:
    saved = sequential_experiment(tmp_path, limits={"episodes": 300})
    control = {"success_rate": 0.8, "cost": 0.01}
    total = estimated(saved.plan, RunCost("e1", 10.0, 20, 1, {"control": control})).text
    assert " USD, as in e1, where 20 episodes took 10.0 s with --workers 1" in total


def test_paper_engine_without_faults_is_held(tmp_path: Path) -> None:
    saved = planned(tmp_path, until_decided=True, hypothesis=["success_rate >= 0.6"])
    engine = Dealer(sometimes)
    result = run_on_paper(saved, engine)  # type: ignore[arg-type]
    assert result.is_whole and len({each.split()[1] for each in engine.ran}) < 100


def test_recording_of_a_decided_experiment_has_no_open_episodes(tmp_path: Path) -> None:
    saved = planned(tmp_path, until_decided=True, hypothesis=["success_rate >= 0.6"])
    run_on_paper(saved, Dealer(sometimes))  # type: ignore[arg-type]
    arms = recording_of(load(saved)).arms
    assert {name: arm.summary.success.planned for name, arm in arms.items()} == {
        name: len(arm.episodes) for name, arm in arms.items()
    }


def test_perturbed_arms_are_decided_with_their_control(tmp_path: Path) -> None:
    saved = planned(
        tmp_path, until_decided=True, hypothesis=["success_rate >= 0.6"], perturb=["padding"], only=["1"]
    )
    result = run_on_paper(saved, Dealer(sometimes))  # type: ignore[arg-type]
    state = saved.look()
    assert result.is_whole and {arm.name for arm in result.arms} == {arm.name for arm in saved.plan.arms}
    verdicts = [state.decisions[name]["success_rate >= 0.6"].verdict for name in ("method", "method.padding")]
    assert verdicts == ["held", "held"]
    longest = max(state.extents[name] for name in ("method", "method.padding"))
    assert state.extents["control.padding"] == state.extents["control"] == longest
