"""Memory from recorded histories: what it reads, and the commands that show it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.experiments.recorded_runs import write
from tests.judging.oracle.histories import (
    ended,
    episode,
    exchange,
    fault_met,
    judge_episode,
    run_finished,
    run_started,
    tried,
)
from tests.report.page.test_figures import check
from tests.report.synthetic import SyntheticRun
from tests.support import replace
from wirefault.cli.main import main
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.saved import save
from wirefault.history.events import Event
from wirefault.memory.episodes import Remembered
from wirefault.memory.histories import recorded_episodes

FOUR, RIGHT = {"values": [{"number": 4}]}, [{"value": 4.0, "unit": None}]
FAULTED = (
    exchange("weather", status=503, fault=fault_met(id="down")),
    tried("weather", "http_503", status=503),
)
# as the runner records it
FAULT_SET = '{"faults": [{"id": "down", "fault": "unavailable", "when": {"probability": 0.9}}]}'
EXPERIMENT = {
    "title": "Weather is down",
    "prompts": [{"prompt": f"What is 2 + {n}?", "id": f"e{n}", "expect": FOUR} for n in range(4)],
    "method": {
        "faults": {"faults": [{"fault": "unavailable", "links": "weather", "when": {"probability": 0.9}}]}
    },
    "hypothesis": ["no crash"],
}


def run_events(run_id: str, outcomes: str, *around: Any, **settings: Any) -> list[Event]:
    """A run with these outcomes (S success, F failure, I interrupted), with these events in each episode."""
    events: list[Event] = [replace(run_started(len(outcomes), **settings), run_id=run_id)]
    for place, outcome in enumerate(outcomes):
        key = f"e{place}"
        end = ended("done" if outcome == "S" else "failed", RIGHT if outcome == "S" else [], episode=key)
        inside = [replace(event, episode=key) for event in around]
        of_episode: Sequence[Event] = episode(*inside, end, expect=FOUR, name=key)
        events += (
            of_episode[:2] if outcome == "I" else [*of_episode, replace(judge_episode(of_episode), t=1.0)]
        )
    return [*events, run_finished(completed="I" not in outcomes)]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has an experiment on paper whose arm fails in three of four episodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGS_DIR", str(tmp_path / "logs"))
    (tmp_path / "weather.yaml").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    plan = plan_experiment(load_experiment(tmp_path / "weather.yaml"), {"LOGS_DIR": str(tmp_path / "logs")})
    save(plan, "e1")
    write(tmp_path / "logs", "e1-1-control", run_events("e1-1-control", "SSSS", *calm()))
    write(tmp_path / "logs", "e1-2-method", run_events("e1-2-method", "SFFF", *FAULTED, faults=FAULT_SET))
    return tmp_path / "logs"


def calm() -> tuple[Event, ...]:
    return exchange("weather"), tried("weather")


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["memory", *words])


def remembered(logs: Path) -> list[Remembered]:
    return list(recorded_episodes(logs, {"LOGS_DIR": str(logs)}, {}))


def test_arm_is_paired_with_its_control(logs: Path) -> None:
    control, method = remembered(logs)[:4], remembered(logs)[4:]
    assert {each.twin_arm for each in control} == {""} and {each.twin_arm for each in method} == {"control"}
    assert [each.result for each in method] == ["success", *["failure"] * 3]
    [fault] = method[0].faults
    assert fault.parameters == {"probability": 0.9}  # not the status that was observed
    assert (fault.kind, fault.components) == ("unavailable", ("link weather", "tool weather GET /"))
    assert control[0].used["link weather"] is True and method[0].used["link weather"] is False
    assert [(each.link, each.faults) for each in method[0].outages] == [("link weather", ("unavailable",))]


def test_show_tells_what_was_learned_and_by_which_run(logs: Path) -> None:
    table = call("show").output
    assert "link weather" in table and "100 % of 4" in table and "-75 (" in table
    text = call("show", "weather").output
    assert "no effect of unavailable on success is shown: -75 percentage points" in text  # three of four
    assert "0 of 4 outages recovered" in text and "[e1-2-method]" in text
    document = json.loads(call("show", "weather", "--json").stdout)["components"][0]
    assert (document["with_fault"]["k"], document["with_fault"]["n"], document["learnings"][0]["runs"]) == (
        1,
        4,
        ["e1-2-method"],
    )


def test_page_has_the_figures_of_json_and_what_to_test_next(logs: Path) -> None:
    result = call("show", "--html", "memory.html", "--json")
    page, document = Path("memory.html").read_text(encoding="utf-8"), json.loads(result.stdout)
    check(page, document, 20)
    assert document["counts"] == {"episodes": 8, "recordings": 1, "components": 3}
    best = document["next"][0]
    assert best["reason"] == "regression" and best["because"] in html.unescape(page)
    assert document["chains"] == []


def test_rebuild_follows_the_histories_and_names_what_it_skips(logs: Path) -> None:
    assert "8 episodes of 1 recordings" in call("rebuild").output
    SyntheticRun(logs, "20260101-000000-aaaaaa", prompts=3).write()
    assert "not remembered: 20260101-000000-aaaaaa" in call("show").output
    assert "11 episodes of 2 recordings" in call("rebuild").output
    (logs / "experiments" / "e1" / "plan.json").write_text("{", encoding="utf-8")
    again = call("rebuild")
    assert "3 episodes" in again.stdout and "skipped e1" in again.stderr


def test_interrupted_episode_is_remembered_as_such(logs: Path) -> None:
    write(logs, "e2", run_events("e2", "SI", *FAULTED))
    assert [each.result for each in remembered(logs) if each.source == "e2"] == ["success", "interrupted"]


def test_own_outcome_outlives_a_rebuild(logs: Path) -> None:
    write(logs, "e2", run_events("e2", "SFFF", *FAULTED, faults=FAULT_SET))
    assert "unavailable on link weather: partial success" in call("similar", "e1").output
    call("mark", "e2", "wrong model")
    call("rebuild")
    assert "1.00  e2: wrong model, 4 episodes" in call("similar", "e1").output
    call("mark", "e2", "")
    assert "e2: partial success" in call("similar", "e1").output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["show", "wether"], "memory has no faults at a component 'wether'; did you mean 'weather'?"),
        (["similar", "e7"], "memory has no experiment or run 'e7'"),
        (["mark", "nothing", "x"], "memory has no experiment or run 'nothing'"),
    ],
)
def test_unknown_name_is_one_line(logs: Path, words: list[str], problem: str) -> None:
    refused = call(*words)
    assert refused.exit_code == 64
    assert problem in refused.stderr and "Traceback" not in refused.stderr


def test_foreign_file_is_refused(logs: Path) -> None:
    (logs / "memory").mkdir()
    (logs / "memory" / "memory.sqlite").write_bytes(b"not a database at all" * 10)
    assert "remove it, and run: wirefault memory rebuild" in call("show").stderr
