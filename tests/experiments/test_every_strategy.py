"""Every kind of experiment, killed, interrupted or dealt to several workers, comes to the same answer."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.dealer import (
    Dealer,
    Fails,
    Killed,
    audited_episode,
    both_down,
    episode_with_call,
    on_paper,
    sometimes,
)
from tests.experiments.paper_cluster import PaperCluster
from tests.experiments.search.test_run_search import smallest_set, source
from tests.experiments.test_tournament_files import plans
from wirefault.audit.answers import Answer
from wirefault.audit.engine import run_audit
from wirefault.audit.options import AuditOptions
from wirefault.audit.result import AuditResult
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.cost import NOT_YET, Cost, estimated
from wirefault.experiments.engine import Engine
from wirefault.experiments.experiment import CONTROL, Experiment
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.index import RunCost
from wirefault.experiments.plan import (
    PLAIN_RUN,
    ExperimentPlan,
    PlannedArm,
    levels_of,
    plan_plain_run,
    stressed,
)
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_experiment import ExperimentResult, run_experiment
from wirefault.experiments.run_tournament import (
    TournamentRounds,
    agent_of,
    load_tournament,
    result_of,
    run_tournament,
    save_tournament,
)
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.search.options import plan_explain, plan_limit, plan_pairs
from wirefault.experiments.search.run_search import run_search
from wirefault.history.events import Event
from wirefault.memory.planner.choose import Terms
from wirefault.memory.planner.run_next import steps_with
from wirefault.memory.planner.source import agent_source, plan_next
from wirefault.report.audit_files import audit_as_json
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.prompts import Prompt, PromptsSource
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring


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


def answer(saved: SavedExperiment, engine: Engine) -> object:
    """Run the rest of the experiment; its answer without the ids of runs. Raises ``Killed``."""
    # a limit tries a dose as often as there are workers, so another number of them is another search
    how = on_paper(2 if isinstance(engine, PaperCluster) and not saved.plan.search else 1)
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


RunRest = Callable[[Engine], object]


@dataclass(frozen=True)
class Kind:
    """A way to run something in a folder until its end, however often it is killed on the way."""

    begin: Callable[[Path], RunRest]
    """Saves it; the function runs what is left of it, and returns its answer. Raises ``Killed``."""
    fails: Fails
    happens: Callable[[PlannedArm, str], list[Event]] | None = None
    """See ``Dealer``."""
    ends_after: int = 5
    """Episodes until it is killed or interrupted."""
    on_cluster: bool = False
    plan_in: Callable[[Path], ExperimentPlan] | None = None
    """Of an experiment or a search."""


def experiment_kind(plan_in: Callable[[Path], ExperimentPlan], fails: Fails, **more: Any) -> Kind:
    def begin(folder: Path) -> RunRest:
        plan = plan_in(folder)
        logs = save(plan, "e1").logs
        return lambda engine: answer(load_saved(logs, "e1", plan.configuration.environ), engine)

    return Kind(begin, fails, on_cluster=True, plan_in=plan_in, **more)


def tournament(folder: Path) -> RunRest:
    """Save one of three agents, the first of which fails more often."""
    limits = {"episodes": 18}
    of_arms = plans(folder, repeats=None, until_decided=True, confidence=0.8, limits=limits)
    logs = save_tournament(of_arms, "t1").logs

    def run_rest(engine: Engine) -> object:
        assert isinstance(engine, Dealer)

        def run_one(saved: SavedExperiment, left: Cost) -> ExperimentResult:
            fails = often if agent_of(saved.plan) == "none" else sometimes
            engine.fails, engine.of = fails, f"{agent_of(saved.plan)} "
            return run_experiment(saved, replace(how, expected=left), engine)

        how = on_paper()
        saved = load_tournament(logs, "t1", {"LOGS_DIR": str(logs)})
        result = run_tournament(saved, run_one, how.say, lambda arm: arm.code == INTERRUPTED)
        if any(each.code == INTERRUPTED for each in result.results):
            raise Killed
        assert not TournamentRounds().next(result.tournament)
        assert [each.code for each in result.results] == [each.code for each in result_of(saved).results]
        return [table.as_json() for table in result.tables()]

    return run_rest


def audit(folder: Path) -> RunRest:
    """Save one of three questions, of which one is asked a third time."""
    environ = {"LOGS_DIR": str(folder / "logs")}
    subject = {"command": ["true"], "folder": ".", "prompt": "none"}
    data = {"intercept": {}, "subject": subject}
    wiring = build_wiring(SpecFile("wiring", data), folder)
    configuration = load_configuration(environ, {}, wiring)
    arm = PlannedArm(PLAIN_RUN, configuration.settings, ())
    experiment = Experiment.model_construct(title="On paper")
    prompts = (Prompt("clean", "Order tea"),)
    logs = save(ExperimentPlan(experiment, configuration, prompts, (arm,)), "e1").logs

    def run_rest(engine: Engine) -> object:
        assert isinstance(engine, Dealer)
        saved, heard, how = load_saved(logs, "e1", environ), Heard(), on_paper()
        options = AuditOptions(("lost_reply", "write_5xx", "read_5xx"), workers=engine.workers)
        options.save(saved)
        result = run_audit(saved, options, how.toxiproxy, how.say, heard, engine, how.progress)
        if result.code == INTERRUPTED:
            raise Killed
        assert heard.problems == [""] and {*heard.answers} <= {"q01", "q02"}
        document = audit_as_json(result)
        runs = {each["id"]: len(each.pop("runs")) for each in document["answers"]}
        for each in (*document["findings"], *document["answers"]):
            each |= {"show": "", "evidence": len(each["evidence"])}  # of which run
        document |= {"seconds": 0, "runs": len(runs)}  # runs that were killed count, too
        return document, runs, sorted(prompt.key for prompt in load_saved(logs, "e1", environ).plan.prompts)

    return run_rest


@dataclass
class Heard:
    """Notes all that an audit tells its listener."""

    problems: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def learned(self, result: AuditResult) -> None:
        self.problems.append(result.problem)

    def answered(self, answer: Answer) -> None:
        self.answers.append(answer.ask.id)


KINDS = {
    "fixed arms": experiment_kind(lambda folder: experiment(folder, repeats=4), sometimes),
    "plain run": experiment_kind(plain_run, sometimes),
    "levels of perturbed arms": experiment_kind(levels, sometimes),
    "until decided": experiment_kind(until_decided, sometimes, ends_after=60),
    "limit": experiment_kind(limit, above_half),
    "smallest set": experiment_kind(lambda folder: smallest_set(source(folder)), both_down),
    "pairs": experiment_kind(lambda folder: plan_pairs(source(folder), {"slow.ms": (1, 5)}, 3), with_a_down),
    "cause": experiment_kind(cause, with_a_down),
    "next": experiment_kind(next_ones, sometimes, happens=episode_with_call),  # it proposes by calls
    "tournament": Kind(tournament, sometimes, ends_after=30),
    "audit": Kind(audit, sometimes, ends_after=2, happens=audited_episode),
}


def to_the_end(attempt: Callable[[int], object]) -> tuple[int, object]:
    """The number of attempts that were killed or interrupted, and the result of the last one."""
    for number in range(200):
        try:
            return number, attempt(number)
        except Killed:
            continue
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("name", KINDS)
def test_answer_does_not_depend_on_kills_and_workers(name: str, tmp_path: Path) -> None:
    """No episode runs twice either, nor one that an undisturbed experiment does not run."""
    kind = KINDS[name]
    answers, ran = [], []
    for way in ("whole", "dealt", "killed", "on a cluster")[: 4 if kind.on_cluster else 3]:
        (tmp_path / way).mkdir()
        run_rest = kind.begin(tmp_path / way)
        engines: list[Dealer | PaperCluster] = []

        def engine(number: int, way: str = way) -> Dealer | PaperCluster:
            if way == "on a cluster":
                return PaperCluster(Dealer(kind.fails, happens=kind.happens), ends_after=1 + 3 * number)
            ends_after = kind.ends_after if way == "killed" else math.inf
            workers = {"whole": 1, "dealt": 2, "killed": 1 + number % 3}[way]
            return Dealer(kind.fails, workers, ends_after, number % 2 == 0, kind.happens)

        def attempt(number: int, run_rest: RunRest = run_rest) -> object:
            engines.append(engine(number))  # noqa: B023
            return run_rest(engines[-1])  # noqa: B023

        ends, result = to_the_end(attempt)
        assert (ends > 0) == (way not in ("whole", "dealt"))
        answers.append(result)
        ran.append(sorted(each for dealer in engines for each in dealer.ran))
    assert all(each == answers[0] for each in answers)
    assert all(each == ran[0] for each in ran)


COST = re.compile(r"(?:.*: )?(cost|left): (?:(about|at most) )?(\d+) episodes?, (.*)")


# the summary of a plain run has its duration and its tokens
@pytest.mark.parametrize("name", [name for name in KINDS if name != "plain run"])
def test_cost_has_the_same_words_before_while_and_after(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is resumed says what is left, and none runs more than it says."""
    lines, left = list[str](), list[Cost | None]()
    how = replace(on_paper(), say=lines.append, progress=lambda arm: left.append(arm.left))
    monkeypatch.setitem(globals(), "on_paper", lambda workers=1: replace(how, workers=workers))
    kind, counts = KINDS[name], list[int]()
    run_rest = kind.begin(tmp_path)
    for way, ends_after in (("interrupted", kind.ends_after + 2), ("resumed", math.inf)):
        lines.clear()
        engine = Dealer(kind.fails, ends_after=ends_after, happens=kind.happens)
        with pytest.raises(Killed) if way == "interrupted" else nullcontext():
            run_rest(engine)
        before, after = (match for line in lines if (match := COST.fullmatch(line)))
        assert (before[1], after[1], after[2]) == ("left" if way == "resumed" else "cost", "cost", None)
        assert int(after[3]) == len(engine.ran) and re.fullmatch(r"[\d.]+ s, money unknown", after[4])
        estimate = int(before[3])
        ran = sum(not each.startswith("run clean") for each in engine.ran)  # they come before an estimate
        assert before[2] == "about" or ran <= estimate
        assert left[-1] is not None and left[-1].text.startswith("left: ")
        assert left[-1].episodes == max(0, estimate - ran)
        counts += [estimate, ran]
    assert before[2] or counts[0] - counts[1] == counts[2] == counts[3]


def test_estimate_goes_by_the_last_run(tmp_path: Path) -> None:
    plan = levels(tmp_path)
    last = RunCost("e1", 10.0, 5, 2, {CONTROL: {"cost": 0.5}, plan.arms[-1].name: {"cost": 0.5}})
    assert estimated(plan, None).text.endswith(f"episodes, time unknown, money unknown, {NOT_YET}")
    count = plan.episodes
    text = f"cost: {count} episodes, about {2 * count:.1f} s, about {count / 2:.3g} USD, as in e1, where 5"
    assert estimated(plan, last).text == f"{text} episodes took 10.0 s with --workers 2"
    rest = estimated(plan, last, {CONTROL: 2}).after(Cost(4, seconds=2.0))
    assert rest.text.startswith(f"left: {count - 6} episodes, about {(count - 6) / 2:.1f} s, about ")
