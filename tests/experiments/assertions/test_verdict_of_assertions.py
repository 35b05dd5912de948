"""From the recorded runs of an arm to a check of the verdict, with evidence and JUnit output."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.experiments.assertions.views import model_request
from tests.experiments.test_arm_history import write
from tests.experiments.test_verdict import AFTER, CONTROL, arm
from tests.judging.oracle.histories import ended, episode, judge_episode, run_finished, run_started
from tests.support import replace
from wirefault.experiments.assertions.registry import AssertionEntry
from wirefault.experiments.compare import compare, side_of
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.experiments.expression import exactly
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.verdict import judge_experiment
from wirefault.history.events import Event
from wirefault.history.reader import read_history
from wirefault.report.comparison import comparison_json, print_comparison
from wirefault.report.junit import junit
from wirefault.wiring.spec_file import SpecFile


def saved_with(folder: Path, *assertions: AssertionEntry) -> SavedExperiment:
    """An experiment with two episodes in the lab, before any run."""
    data = {"prompts": [{"prompt": "One", "id": "one"}, {"prompt": "Two", "id": "two"}]}
    method = Arm(faults="lost-replies", assertions=list(assertions))
    experiment = Experiment(title="x", method=method, **data)  # type: ignore[arg-type]
    experiment_file = ExperimentFile(experiment, folder, SpecFile("x", {}))
    return save(plan_experiment(experiment_file, {"LOGS_DIR": str(folder / "logs")}), "e1")


def episode_events(key: str, answer: str) -> list[Event]:
    made = episode(model_request(), ended(ended_by="text", response=answer), expect={})
    events: list[Event] = [replace(event, episode=key) for event in made if event.event != "exchange"]
    return [*events, replace(judge_episode(events), t=120.0)]


def write_arm(saved: SavedExperiment, *answers: str) -> None:
    """A run for each episode of the method, as two workers leave them."""
    method = saved.plan.arms[1]
    run_ids = saved.next_run_ids(method, len(answers))
    for run_id, key, answer in zip(run_ids, ("one", "two"), answers, strict=True):
        events = [run_started(1), *episode_events(key, answer), run_finished()]
        write(saved.plan.configuration.logs, run_id, events)


def test_evidence_exists_in_named_run(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, {"answer_contains": "Rome"})
    write_arm(saved, "Rome", "Paris")
    [asserted] = saved.arm_result(saved.plan.arms[1]).asserted
    [evidence] = asserted.result.evidence
    run_id, _, event = evidence.partition("/")
    line = read_history(saved.plan.configuration.logs, run_id).line(event)
    assert run_id == "e1-2-method.2" and b'"Paris"' in line
    assert asserted.results is not None and [*asserted.results] == ["two", "one"]  # failures come first


def test_saved_experiment_keeps_assertions(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, "no_loop", "seconds <= 30s")
    again = load_saved(tmp_path / "logs", "e1", {"LOGS_DIR": str(tmp_path / "logs")})
    assert again.plan.arms == saved.plan.arms
    assert again.plan.arms[1].assertions == ("no_loop", "seconds <= 30s")


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [(("Rome", "Rome"), "held"), (("Rome", "Paris"), "deviated"), (("", "Rome"), "unknown")],
)
def test_assertion_decides_verdict(tmp_path: Path, answers: tuple[str, str], verdict: str) -> None:
    saved = saved_with(tmp_path, {"answer_contains": "Rome"})
    write_arm(saved, *answers)
    method = replace(arm("method", 2, 0), asserted=saved.arm_result(saved.plan.arms[1]).asserted)
    judged = judge_experiment([CONTROL, method, AFTER])
    check = next(check for check in judged.checks if check.assertion)
    assert (check.assertion, check.statement, check.verdict) == (
        "answer_contains",
        "answer_contains: Rome",
        verdict,
    )
    assert check.expected == "an answer with 'Rome'"
    of_one = ExperimentResult(saved, [method], judged)
    [check_row] = [row for row in of_one.as_json()["checks"] if row["assertion"]]
    assert check_row["results"]["one"]["expected"] == check.expected
    cases = ElementTree.fromstring(junit([of_one])).findall(".//testcase")
    [case] = [each for each in cases if each.get("name") == check.statement]
    kinds = [each.get("value") for each in case.findall("properties/property[@name='kind']")]
    assert kinds == ["check"]
    problem = {"held": None, "deviated": "failure", "unknown": "error"}[verdict]
    assert [child.tag for child in case] == ["properties", *([problem] if problem else [])]
    assert all(id in (case[1].text or "") for id in check.evidence) if problem else True


def test_arm_without_delivered_faults_leaves_assertions_unknown(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, "completes")
    write_arm(saved, "Rome", "Rome")
    calm = arm("method", 2, 0, faults_delivered=exactly(0))
    method = replace(calm, asserted=saved.arm_result(saved.plan.arms[1]).asserted)
    judged = judge_experiment([CONTROL, method, AFTER])
    assert judged.verdict == "unknown" and not any(check.assertion for check in judged.checks)


def test_junit_skips_statements_of_arms_that_were_not_run(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, {"answer_contains": "Rome"})
    write_arm(saved, "Rome", "Rome")
    result = ExperimentResult(saved, [CONTROL], judge_experiment([CONTROL]), timing={"seconds": 2.5})
    [suite] = ElementTree.fromstring(junit([result]))
    skipped = [case.get("name") for case in suite if case.find("skipped") is not None]
    assert "answer_contains: Rome" in skipped and suite.get("skipped") == str(len(skipped))
    assert suite.get("time") == "2.500"


def test_compared_arms_show_assertions(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, {"answer_contains": "Rome"}, "completes")
    write_arm(saved, "Rome", "Paris")
    recording = recording_of(saved)
    compared = compare(side_of(recording), side_of(recording), ["method"])
    side = "deviated: 1 of 2 episodes"
    assert compared.arms[0].assertions["answer_contains: Rome"] == (side, side)
    console = Console(file=io.StringIO(), width=110)
    print_comparison(console, compared, concludes=True)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    [line] = [line for line in lines if line.startswith("answer_contains: Rome")]
    assert line.split("  ")[1:] and line.count("deviated: 1 of 2") == 2
    assert comparison_json(compared)["arms"][0]["assertions"].keys() == {"answer_contains: Rome", "completes"}


@pytest.mark.parametrize("function", ["polite", "says_maybe", "raises", "missing"])
def test_callable_is_named_without_its_folder(tmp_path: Path, function: str) -> None:
    file = tmp_path / "checks.py"
    file.write_text(
        "def polite(episode): return True\n"
        "def says_maybe(episode): return 'maybe'\n"
        "def raises(episode): raise RuntimeError\n"
        "def missing(episode): return True\n"
    )
    saved = saved_with(tmp_path, {"callable": f"{file}:{function}"})
    if function == "missing":
        file.unlink()
    write_arm(saved, "Rome", "Paris")
    [asserted] = saved.arm_result(saved.plan.arms[1]).asserted
    assert asserted.statement == f"callable: checks.py:{function}"
    assert str(tmp_path) not in str(asserted)
