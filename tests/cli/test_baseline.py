"""``wirefault baseline`` and ``compare --baseline`` over recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.experiments.test_compare import SavedRuns
from wirefault.cli.main import main


@pytest.fixture
def logs(tmp_path: Path) -> SavedRuns:
    (tmp_path / "logs").mkdir()
    return SavedRuns(tmp_path / "logs")


def test_worse_run_fails_against_accepted_one(logs: SavedRuns) -> None:
    folder = str(logs.logs.parent)
    file = f"{folder}/b.json"
    logs.run("20260101-000000-aaaaaa", "S" * 10)
    logs.run("20260101-000001-bbbbbb", "F" * 10)
    cli = CliRunner()
    accepted = cli.invoke(
        main, ["baseline", "accept", "20260101-000000-aaaaaa", "--file", file, "--out", folder]
    )
    assert (accepted.exit_code, accepted.output.startswith(f"{file}: 20260101-000000-aaaaaa")) == (0, True)
    command = ["compare", "--baseline", file, "20260101-000001-bbbbbb", "--out", folder]
    failed = cli.invoke(main, [*command, "--json"])
    gate = json.loads(failed.output)["gate"]
    assert (failed.exit_code, gate["result"]) == (1, "failed")
    assert "failed against the baseline" in cli.invoke(main, command).output
    assert cli.invoke(main, [*command, "--fail-on", "new finding"]).exit_code == 0


def test_incomplete_recording_is_not_accepted(logs: SavedRuns) -> None:
    logs.run("20260101-000000-aaaaaa", "SS", completed=False)
    out = ["--out", str(logs.logs.parent)]
    refused = CliRunner().invoke(main, ["baseline", "accept", "20260101-000000-aaaaaa", *out])
    assert (refused.exit_code, "did not run to its end" in refused.output) == (64, True)


def test_recording_that_shows_nothing_is_not_accepted_and_does_not_pass(logs: SavedRuns) -> None:
    folder = str(logs.logs.parent)
    file = f"{folder}/b.json"
    logs.run("20260101-000000-aaaaaa", "S" * 4)
    logs.run("20260101-000001-bbbbbb", "I" * 4)
    cli = CliRunner()
    accept = ["baseline", "accept", "20260101-000001-bbbbbb", "--file", file, "--out", folder]
    refused = cli.invoke(main, accept)
    assert refused.exit_code == 64 and "accept a recording that shows something" in refused.output
    accept[2] = "20260101-000000-aaaaaa"
    assert cli.invoke(main, accept).exit_code == 0
    command = ["compare", "--baseline", file, "20260101-000001-bbbbbb", "--out", folder]
    compared = cli.invoke(main, [*command, "--fail-on", "new finding"])
    assert compared.exit_code == 2 and "unknown against the baseline" in compared.output
    assert "perhaps worse" not in compared.output  # one conclusion, as the exit code has it


@pytest.mark.parametrize("words", [["a"], ["a", "b", "--baseline", "b.json"]])
def test_two_recordings_or_a_baseline_are_needed(words: list[str]) -> None:
    refused = CliRunner().invoke(main, ["compare", *words])
    assert (refused.exit_code, "--baseline FILE and one" in refused.output) == (64, True)
