"""An experiment with an engine that writes histories: what is rerun, resumed and refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.experiments.test_arm_history import episode_events, invalid, write
from tests.judging.oracle.histories import run_finished, run_started
from tests.support import replace
from wirefault.cli.main import main
from wirefault.cli.results import show_result
from wirefault.core.errors import InputError
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_experiment import ExperimentResult, judged_again, run_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.history.events import EpisodeJudged, Event
from wirefault.history.judged_events import Finding
from wirefault.lab.toxiproxy import Choice
from wirefault.report.junit import junit
from wirefault.toxiproxy.planned import VERIFIED
from wirefault.wiring.prompts import Prompt


@dataclass
class PaperEngine:
    """Writes ``fails`` runs of invalid episodes for each arm, then one of judged episodes."""

    fails: int = 0
    rollback: str = VERIFIED
    judged: Callable[[str], list[Event]] = episode_events
    ran: list[str] = field(default_factory=list)

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        def run_arm(saved: SavedExperiment, arm: PlannedArm, left: Sequence[Prompt]) -> int:
            [run_id] = saved.next_run_ids(arm, 1)
            fate = invalid if len(saved.run_ids(arm)) < self.fails else self.judged
            episodes = [event for prompt in left for event in fate(prompt.key)]
            self.ran += [f"{arm.name} {prompt.key}" for prompt in left]
            logs = saved.plan.configuration.logs
            write(logs, run_id, [run_started(len(left)), *episodes, replace(run_finished(), toxics_left=0)])
            return 0

        code = run_arms(run_arm)
        saved.note_end(rollback=self.rollback)
        return code


@pytest.fixture
def saved(tmp_path: Path) -> SavedExperiment:
    return planned(tmp_path)


def planned(folder: Path, **more: Any) -> SavedExperiment:
    data = {
        "title": "On paper",
        "only": ["1", "2"],
        "method": {"settings": {"error_prob": 1}},
        "hypothesis": ["no crash"],
        **more,
    }
    (folder / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    plan = plan_experiment(load_experiment(folder / "exp.json"), {"LOGS_DIR": str(folder / "logs")})
    return save(plan, f"e{time.time_ns()}")


def run_on_paper(saved: SavedExperiment, engine: PaperEngine) -> ExperimentResult:
    return run_experiment(saved, RunControl(Choice("embedded"), lambda _: None), engine)


def test_invalid_episodes_are_run_again_up_to_limit(saved: SavedExperiment) -> None:
    engine = PaperEngine(fails=2)
    result = run_on_paper(replace(saved, retry_invalid=1), engine)
    control = result.arms[0]
    assert len(engine.ran) == 4 and len(control.invalid) == 2 and len(control.reruns) == 2
    assert result.as_json()["verdict"] == "unknown"
    assert "not armed within 2 s" in str(result.as_json()["arms"][0]["reruns"])
    assert run_on_paper(replace(saved, retry_invalid=2), engine).arms[0].invalid == {}
    assert len(engine.ran) > 4


def test_without_retry_invalid_episode_stays(saved: SavedExperiment) -> None:
    engine = PaperEngine(fails=1)
    assert len(run_on_paper(saved, engine).arms[0].invalid) == 2 and len(engine.ran) == 2


def test_failed_rollback_is_not_held(saved: SavedExperiment) -> None:
    problem = "not verified: 1 toxics desired, 0 observed"
    result = run_on_paper(saved, PaperEngine(rollback=problem))
    assert result.judged is not None and result.judged.verdict == "unknown"
    assert (result.rollback, judged_again(saved).rollback) == (problem, problem)
    assert any(check.statement == "rollback" for check in result.judged.checks)


def test_engine_without_rollback_report_is_verified_from_runs(saved: SavedExperiment) -> None:
    assert run_on_paper(saved, PaperEngine(rollback="")).rollback == VERIFIED


def test_aborted_stays_aborted(tmp_path: Path) -> None:
    saved = planned(tmp_path, safety={"abort": ["time >= 0"]})
    engine = PaperEngine()
    result = run_on_paper(saved, engine)
    assert (result.as_json()["verdict"], result.code, result.can_be_resumed) == ("aborted", 2, False)
    assert len(engine.ran) == 2  # no arm began after the control
    with pytest.raises(InputError, match="was aborted"):
        run_on_paper(saved, engine)
    assert judged_again(saved).as_json()["verdict"] == "aborted"


def test_limit_leaves_remaining_episodes_for_resume(tmp_path: Path) -> None:
    saved = planned(tmp_path, limits={"time": 1e-9})
    engine, codes = PaperEngine(), []
    for _ in range(3):
        result = run_on_paper(saved, engine)
        codes.append((result.as_json()["verdict"], result.can_be_resumed))
    assert codes[0] == ("unknown", True) and "the limit of time" in reason_of_rerun(saved)
    assert len(engine.ran) == len(set(engine.ran))


def reason_of_rerun(saved: SavedExperiment) -> str:
    return str(judged_again(saved).as_json()["because"])


def test_harm_is_shown_before_a_verdict_that_held(saved: SavedExperiment) -> None:
    harm = Finding("write_repeated", "harmful", "POST /orders was sent again", evidence=("gateway-0:1",))

    def harmful(key: str) -> list[Event]:
        return [
            replace(each, findings=(harm,)) if isinstance(each, EpisodeJudged) else each
            for each in episode_events(key)
        ]

    result = run_on_paper(saved, PaperEngine(judged=harmful))
    console = Console(file=StringIO(), width=200)
    assert result.judged
    for verdict in ("held", "deviated"):
        recorded = replace(result, judged=replace(result.judged, verdict=verdict))
        show_result(console, recorded)
    first, *others = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    text = "harmful, although the hypothesis held: control, write_repeated: POST /orders was sent again"
    assert first.startswith(f"{text} (episode ") and first.endswith(" and 1 more)")
    assert sum("although the hypothesis" in each for each in others) == 2  # of the other arms
    other = replace(result, judged=replace(result.judged, verdict="held"))
    document = other.as_json()
    assert document["harm_beside"][0].startswith(text) and result.as_json()["harm_beside"] == []
    assert [arm["findings"][0]["severity"] for arm in document["arms"]] == ["harmful"] * 3
    assert text in junit([other]) and "although" not in junit([result])


def test_findings_of_every_arm_follow_a_verdict_that_deviated(tmp_path: Path) -> None:
    rough = Finding("hasty_retry", "risky", "GET / was sent again too soon", evidence=("gateway-0:1",))

    def judged(key: str) -> list[Event]:
        return [
            replace(each, findings=(rough,)) if isinstance(each, EpisodeJudged) else each
            for each in episode_events(key)
        ]

    saved = planned(tmp_path, hypothesis=["findings == 0"])
    console = Console(file=StringIO(), width=200)
    show_result(console, run_on_paper(saved, PaperEngine(judged=judged)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "in method:\nRISK  GET / was sent again too soon" in text
        and "risky in control: GET / was sent again too soon\n" in text
    )


@pytest.mark.parametrize(("place", "arm"), [(2, "first"), (0, "control")])  # the control has two episodes
def test_page_counts_a_finding_among_the_episodes_of_its_arms(tmp_path: Path, place: int, arm: str) -> None:
    harm = Finding("write_repeated", "harmful", "POST /orders was sent again", evidence=("gateway-0:1",))
    variants = {"first": {"settings": {"error_prob": 1}}, "second": {"settings": {"error_prob": 0.5}}}
    saved = planned(tmp_path, method=None, variants=variants)
    number = count()

    def harmful_once(key: str) -> list[Event]:
        findings = (harm,) if next(number) == place else ()
        return [
            replace(each, findings=findings) if isinstance(each, EpisodeJudged) else each
            for each in episode_events(key)
        ]

    run_on_paper(saved, PaperEngine(judged=harmful_once))
    words = ["report", saved.experiment_id, f"--out={saved.logs.parent}", "--md=-"]
    assert (
        f"| POST /orders was sent again | arm {arm}: in 1 of 2 episodes |"
        in CliRunner().invoke(main, words).stdout
    )


def test_statement_that_broke_in_the_control_is_an_error_of_a_pipeline(saved: SavedExperiment) -> None:
    def crashed(key: str) -> list[Event]:
        return [
            replace(each, outcome="crash") if isinstance(each, EpisodeJudged) else each
            for each in episode_events(key)
        ]

    result = run_on_paper(saved, PaperEngine(judged=crashed))
    suite = ElementTree.fromstring(junit([result]).partition("?>")[2])[0]
    assert (result.verdict, suite.get("failures"), suite.get("errors")) == ("unknown", "0", "1")


def test_report_does_not_take_a_limit_of_findings_for_a_hypothesis(saved: SavedExperiment) -> None:
    run_on_paper(saved, PaperEngine())
    words = ["report", saved.experiment_id, f"--out={saved.logs.parent}", "--fail-on", "none"]
    ended = CliRunner().invoke(main, words)
    assert (ended.exit_code, ended.stdout) == (64, "")
    assert "--fail-on: does not apply to an experiment" in ended.stderr


def test_many_arms_and_statements_are_named_and_counted(saved: SavedExperiment) -> None:
    result = run_on_paper(saved, PaperEngine())
    assert result.judged
    arm, check = result.arms[0], result.judged.checks[0]
    arms = [replace(arm, name=f"mode-{number}") for number in range(26)]
    checks = [replace(check, verdict="held")] * 50 + [replace(check, verdict="deviated")]
    many = replace(result, arms=arms, judged=replace(result.judged, checks=checks))
    printed = {}
    for verbose in (False, True):
        console = Console(file=StringIO(), width=110)
        show_result(console, many, verbose=verbose)
        printed[verbose] = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(printed[False].splitlines()) < 30 < len(printed[True].splitlines())
    assert "statements: 50 held, 1 deviated; --verbose lists all" in printed[False]
    for each in arms:
        assert all(re.search(rf"\b{each.name}\b", text) for text in printed.values())
