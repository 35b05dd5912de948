"""Every kind of experiment comes to the same answer: killed, interrupted, or dealt to workers or machines."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.dealer import Dealer, Fails, Killed, both_down, on_paper, sometimes
from tests.experiments.paper_cluster import PaperCluster
from tests.experiments.search.test_run_search import smallest_set, source
from tests.experiments.test_tournament_files import plans
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.engine import Engine
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import (
    ExperimentPlan,
    PlannedArm,
    levels_of,
    plan_plain_run,
    stressed,
)
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_experiment import ExperimentResult, run_experiment
from wirefault.experiments.run_tournament import (
    agent_of,
    load_tournament,
    run_tournament,
    save_tournament,
)
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.search.options import plan_explain, plan_limit, plan_pairs
from wirefault.experiments.search.run_search import run_search
from wirefault.memory.planner.choose import Terms
from wirefault.memory.planner.run_next import steps_with
from wirefault.memory.planner.source import agent_source, plan_next
from wirefault.wiring.prompts import PromptsSource


def often(arm: PlannedArm, key: str) -> bool:
    return not arm.is_calm and random.Random(key).random() < 0.6


def above_half(arm: PlannedArm, _: str) -> bool:
    return not arm.is_calm and float(arm.name.rpartition("-")[2]) > 0.5


def with_a_down(arm: PlannedArm, _: str) -> bool:
    return "a-down" in arm.settings.faults


def experiment(folder: Path, **more: Any) -> ExperimentPlan:
    data = {"title": "On paper", "seed": 1, "only": ["1", "2"], "method": {"settings": {"error_prob": 0.5}}}
    data |= {"hypothesis": ["success_rate >= 0.6", "no crash"], **more}
    (folder / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    return plan_experiment(load_experiment(folder / "exp.json"), {"LOGS_DIR": str(folder / "logs")})


def plain_run(folder: Path) -> ExperimentPlan:
    plan = experiment(folder, repeats=4)
    return plan_plain_run("On paper", plan.configuration, plan.prompts, "", PromptsSource("prompts.json"))


def levels(folder: Path) -> ExperimentPlan:
    plan = experiment(folder, repeats=3, perturb=["typos"])
    return stressed(plan, levels_of(plan, [0.5, 1]))


def until_decided(folder: Path) -> ExperimentPlan:
    hypothesis = ["success_rate >= 0.6", "success_rate <= 0.95"]
    return experiment(folder, until_decided=True, limits={"episodes": 300}, hypothesis=hypothesis)


def limit(folder: Path) -> ExperimentPlan:
    down = [{"fault": "server_error", "id": "down", "links": ["shop"], "when": {"probability": 0.5}}]
    numbers = {"rate": 0.5, "confidence": 0.95, "cap": 16, "within": 0.0}
    return plan_limit(source(folder, faults=down), "down.probability", (0, 1), 11, **numbers)  # type: ignore[arg-type]


def cause(folder: Path) -> ExperimentPlan:
    """Why an episode of another experiment failed."""
    of = source(folder)
    saved = save(plan_experiment(load_experiment(of.file), of.environ), "e0")
    run_experiment(saved, on_paper(), Dealer(with_a_down))
    return plan_explain(saved, saved.plan.arms[1], "n", error=0.1, cap=20)


def next_ones(folder: Path) -> ExperimentPlan:
    of = source(folder)
    return plan_next(agent_source(of.file).plan({}, of.environ), 9, Terms(), every_question=False)


KINDS: dict[str, tuple[Callable[[Path], ExperimentPlan], Fails]] = {
    "fixed arms": (lambda folder: experiment(folder, repeats=4), sometimes),
    "plain run": (plain_run, sometimes),
    "levels of perturbed arms": (levels, sometimes),
    "until decided": (until_decided, sometimes),
    "limit": (limit, above_half),
    "smallest set": (lambda folder: smallest_set(source(folder)), both_down),
    "pairs": (lambda folder: plan_pairs(source(folder), {"slow.ms": (1, 5)}, 3), with_a_down),
    "cause": (cause, with_a_down),
    "next": (next_ones, sometimes),
}


def answer(saved: SavedExperiment, engine: Engine, workers: int = 1) -> object:
    """Run the rest of the experiment; its answer without the ids of runs. Raises ``Killed``."""
    how = on_paper(workers)
    if saved.plan.search:
        steps = steps_with([]) if saved.plan.search["kind"] == "next" else None
        search = run_search(saved, how, engine, steps)
        if search.code == INTERRUPTED:
            assert not search.is_whole
            raise Killed
        assert search.answer is not None and search.is_whole
        arms = {arm.name: arm.episodes for arm in search.saved.plan.arms}
        return asdict(search.answer) | {"arms": arms}
    result = run_experiment(saved, how, engine)
    if result.code == INTERRUPTED:
        raise Killed
    assert result.is_whole
    document = result.as_json()
    whole = ("verdict", "because", "effects", "surface", "levels", "level_answers")
    of_arm = ("arm", "failure", "invalid", "claims", "measures")
    checks = [{**each, "evidence": []} for each in document["checks"]]
    arms_json = [{name: arm[name] for name in of_arm} for arm in document["arms"]]
    outcomes = {
        arm.name: {each.episode: each.judged.outcome for each in saved.facts_of(arm).episodes}
        for arm in saved.plan.arms
    }
    whole_json = {name: document[name] for name in whole}
    return whole_json | {"checks": checks, "arms": arms_json, "outcomes": outcomes}


def to_the_end(attempt: Callable[[int], object]) -> tuple[int, object]:
    """The number of attempts that were killed or interrupted, and the result of the last one."""
    for number in range(200):
        try:
            return number, attempt(number)
        except Killed:
            continue
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("kind", KINDS)
def test_answer_does_not_depend_on_kills_and_workers(kind: str, tmp_path: Path) -> None:
    """No episode runs twice either, nor one that an undisturbed experiment does not run."""
    plan_in, fails = KINDS[kind]
    answers, ran = [], []
    for name in ("whole", "dealt", "killed", "on a cluster"):
        (tmp_path / name).mkdir()
        plan = plan_in(tmp_path / name)
        logs = save(plan, "e1").logs
        engines: list[Dealer | PaperCluster] = []
        # a limit tries a dose as often as there are workers, so another number of them is another search
        workers = 2 if name == "on a cluster" and not plan.search else 1

        def engine(number: int, name: str = name) -> Dealer | PaperCluster:
            calls = kind == "next"  # its proposals are about calls
            if name == "on a cluster":
                return PaperCluster(Dealer(fails, calls=calls), ends_after=1 + 3 * number)
            if name != "killed":
                return Dealer(fails, 2 if name == "dealt" else 1, calls=calls)
            ends_after = 60 if kind == "until decided" else 5
            return Dealer(fails, 1 + number % 3, ends_after, kills=number % 2 == 0, calls=calls)

        def attempt(number: int) -> object:
            engines.append(engine(number))  # noqa: B023
            saved = load_saved(logs, "e1", plan.configuration.environ)  # noqa: B023
            return answer(saved, engines[-1], workers)  # noqa: B023

        ends, result = to_the_end(attempt)
        assert (ends > 0) == (name not in ("whole", "dealt"))
        answers.append(result)
        ran.append(sorted(each for dealer in engines for each in dealer.ran))
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert ran[0] == ran[1] == ran[2] == ran[3]


def test_tournament_does_not_depend_on_kills(tmp_path: Path) -> None:
    answers = []
    for name, ends_after in (("whole", math.inf), ("killed", 5)):
        (tmp_path / name).mkdir()
        limits = {"episodes": 60}
        of_arms = plans(tmp_path / name, repeats=None, until_decided=True, confidence=0.8, limits=limits)
        logs = save_tournament(of_arms, "t1").logs

        def attempt(number: int, logs: Path = logs, ends_after: float = ends_after) -> object:
            def run_one(saved: SavedExperiment) -> ExperimentResult:
                fails = often if agent_of(saved.plan) == "none" else sometimes
                engine = Dealer(fails, 1 + number % 3, ends_after, kills=True)
                return run_experiment(saved, on_paper(), engine)

            tournament = load_tournament(logs, "t1", {"LOGS_DIR": str(logs)})
            result = run_tournament(tournament, run_one, lambda _: None, lambda _: False)
            return [table.as_json() for table in result.tables()]

        ends, result = to_the_end(attempt)
        assert (ends > 0) == (name == "killed")
        answers.append(result)
    assert answers[0] == answers[1]
