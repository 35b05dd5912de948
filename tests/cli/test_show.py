"""``wirefault show``: which run and which episode are meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.experiments.test_compare import SavedRuns
from tests.experiments.test_run_experiment import planned
from tests.report.page.recorded import doubled_order
from tests.report.synthetic import SyntheticRun
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.recorded import recording_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SyntheticRun(tmp_path / "logs", "20260101-000000-aaaaaa", prompts=3).write()
    SyntheticRun(tmp_path / "logs", "20260102-000000-bbbbbb", prompts=2).write()
    return tmp_path


def show(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["show", *words, "--out", str(folder)])


@pytest.mark.parametrize("episode", ["e002", "2"])
def test_episode_by_key_or_place(folder: Path, episode: str) -> None:
    document = json.loads(show(folder, "20260101-000000-aaaaaa", episode, "--json").output)
    assert (document["run_id"], document["episode"]) == ("20260101-000000-aaaaaa", "e002")
    assert {"attempt", "model", "answer", "claim"} <= {line["kind"] for line in document["timeline"]}


def test_episode_by_the_number_that_the_run_printed(tmp_path: Path) -> None:
    runs = SavedRuns(tmp_path / "logs")
    runs.run("run-1", "SF", ["e0", "e1"], places=[2, 18])  # type: ignore[arg-type]
    assert json.loads(show(tmp_path, "run-1", "18", "--json").output)["episode"] == "e1"
    # no prompt with this number was run: the first of those that were
    assert json.loads(show(tmp_path, "run-1", "1", "--json").output)["episode"] == "e0"
    assert json.loads(show(tmp_path, "run-1", "2", "--json").output)["episode"] == "e0"
    listed = show(tmp_path, "run-1").output
    assert listed.startswith(" 2/18") and "\n18/18" in listed
    assert "has no episode '3'" in show(tmp_path, "run-1", "3").output


def test_latest_is_newest_and_lists_all_episodes(folder: Path) -> None:
    assert [row["episode"] for row in json.loads(show(folder, "latest", "--json").stdout)] == ["e001", "e002"]
    assert "2/2" in show(folder, "latest").output


def test_text_output_has_head_and_prompt(folder: Path) -> None:
    lines = show(folder, "latest", "e001").output.splitlines()
    assert lines[0].endswith("episode e001 of 20260102-000000-bbbbbb") and lines[1] == "prompt e001"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["20260101-000000-aaaaab", "1"], "did you mean '20260101-000000-aaaaaa'?"),
        (["latest", "e003"], "the run 20260102-000000-bbbbbb has no episode 'e003'; there are 2"),
        (["latest", "0"], "has no episode '0'"),
        (["latest", "1", "--arm", "method"], "has no arm 'method'"),
    ],
)
def test_unknown_name_shows_nearest(folder: Path, words: list[str], expected: str) -> None:
    result = show(folder, *words)
    assert result.exit_code == 64 and expected in " ".join(result.output.split())


def test_no_run_is_reported(tmp_path: Path) -> None:
    assert "no runs; start one with" in show(tmp_path, "latest").output


def test_recording_without_a_run_says_how_to_run_it(tmp_path: Path) -> None:
    saved = planned(tmp_path)
    id = saved.experiment_id
    with pytest.raises(
        InputError, match=rf"^{id} has no recorded run.*; wirefault run --resume {id} runs it$"
    ):
        recording_of(saved).arm(None)


def test_every_json_names_events_as_show_takes_them(tmp_path: Path) -> None:
    doubled_order(tmp_path / "logs")
    lines = [("show", "run-b", "1"), ("report", "run-b"), ("runs", "verify", "run-b")]
    printed = [CliRunner().invoke(main, [*words, "--json", "--out", str(tmp_path)]) for words in lines]
    findings = [json.loads(each.stdout)["findings"] for each in printed]
    evidence = [[id for finding in each for id in finding["evidence"]] for each in findings]
    assert evidence[0] == evidence[1] == evidence[2] and "run-b/gateway-0:1" in evidence[0]
    for event in dict.fromkeys(evidence[0]):
        assert json.loads(show(tmp_path, event, "--json").stdout)["findings"] == findings[0]
    verified = CliRunner().invoke(
        main, ["runs", "verify", "run-b", "--event", "run-b/gateway-0:1", "--out", str(tmp_path)]
    )
    assert '"lose_reply"' in verified.stdout


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("run-b/gateway-0:99", "the event gateway-0:99 of run-b is not in its history"),
        ("run-b/agent-0:1", "the event agent-0:1 of run-b belongs to no episode"),
        ("run-c/agent-0:1", "unknown run or experiment 'run-c'"),
    ],
)
def test_event_without_episode_is_named(tmp_path: Path, event: str, problem: str) -> None:
    doubled_order(tmp_path / "logs")
    result = show(tmp_path, event)
    assert result.exit_code == 64 and problem in " ".join(result.output.split())
