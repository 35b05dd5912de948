"""``wirefault show``: which run and which episode are meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.report.synthetic import Flight
from wirefault.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Flight(tmp_path / "logs", "20260101-000000-aaaaaa", prompts=3).write()
    Flight(tmp_path / "logs", "20260102-000000-bbbbbb", prompts=2).write()
    return tmp_path


def show(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["show", *words, "--out", str(folder)])


@pytest.mark.parametrize("episode", ["e002", "2"])
def test_an_episode_is_named_by_key_or_place(folder: Path, episode: str) -> None:
    shown = json.loads(show(folder, "20260101-000000-aaaaaa", episode, "--json").output)
    assert (shown["run_id"], shown["episode"]) == ("20260101-000000-aaaaaa", "e002")
    assert {"attempt", "model", "answer", "claim"} <= {line["kind"] for line in shown["timeline"]}


def test_latest_is_what_was_begun_last_and_without_an_episode_all_are_listed(folder: Path) -> None:
    assert [row["episode"] for row in json.loads(show(folder, "latest", "--json").output)] == ["e001", "e002"]
    assert "2/2" in show(folder, "latest").output


def test_a_person_gets_lines(folder: Path) -> None:
    lines = show(folder, "latest", "e001").output.splitlines()
    assert lines[0].endswith("episode e001 of 20260102-000000-bbbbbb") and lines[1] == "prompt e001"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["20260101-000000-aaaaab", "1"], "did you mean '20260101-000000-aaaaaa'?"),
        (["latest", "e003"], "the run 20260102-000000-bbbbbb has no episode 'e003'; there are 2"),
        (["latest", "0"], "has no episode '0'"),
        (["latest", "1", "--arm", "method"], "has no arm 'method'"),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest(folder: Path, words: list[str], said: str) -> None:
    result = show(folder, *words)
    assert result.exit_code == 64 and said in " ".join(result.output.split())


def test_without_any_run_it_says_so(tmp_path: Path) -> None:
    assert "no run was recorded there" in show(tmp_path, "latest").output
