"""``wirefault runs``: list, report, prune and bundle, and what ``latest`` means in all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.report.synthetic import SyntheticRun
from tests.support import unpack
from wirefault.cli.main import main
from wirefault.experiments.index import listed_run

OLD, NEW = "20260101-000000-aaaaaa", "20260102-000000-bbbbbb"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the histories of two runs that ended an hour ago."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGS_DIR", raising=False)
    for run_id in (OLD, NEW):
        SyntheticRun(tmp_path / "logs", run_id, prompts=2).write()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "logs" / "runs").iterdir())


@pytest.mark.parametrize("words", [["list"], ["runs", "list"]])
def test_list_has_runs_and_their_newest_last(folder: Path, words: list[str]) -> None:
    lines = [line for line in call(*words).output.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == ["run", OLD, NEW]


def test_list_takes_worst_finding_and_agent_from_the_ends_of_a_history(folder: Path) -> None:
    file = folder / "logs" / "runs" / OLD / "agent-0.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    without = listed_run(folder / "logs", OLD, is_saved=False)
    assert (without.verdict, without.worst) == ("no verdict", "-")  # of a version that did not record it
    assert without.tested.startswith("langchain agent")
    recorded = lines[-2].replace(
        b'"toxics_left":0', b'"toxics_left":0,"worst":"risky: hasty_retry","word":"risk found"'
    )
    file.write_bytes(b"".join([*lines[:-2], recorded, b"x" * 5_000_000 + b"\n", recorded]))
    risky = listed_run(folder / "logs", OLD, is_saved=False)
    assert (risky.verdict, risky.worst) == ("risk found", "risky: hasty_retry")
    assert "unknown" in call("list").output and "hasty_retry" not in call("list").output  # it was altered


@pytest.mark.parametrize("command", ["show", "report"])
def test_short_and_group_forms_are_equal(folder: Path, command: str) -> None:
    assert call(command, "latest").output == call("runs", command, "latest").output != ""


@pytest.mark.parametrize("words", [["runs", "verify"], ["report"], ["runs", "bundle"], ["show"]])
def test_latest_is_newest_run(folder: Path, words: list[str]) -> None:
    assert call(*words, "latest").output == call(*words, NEW).output or (folder / f"{NEW}.tar.gz").exists()


def test_prune_prints_sizes_and_keeps_newest(folder: Path) -> None:
    (folder / "logs" / "charts" / OLD).mkdir(parents=True)
    dry = call("runs", "prune", "--keep", "1", "--dry-run")
    assert f"would remove {OLD}" in dry.output and runs(folder) == [OLD, NEW]
    done = call("runs", "prune", "--keep", "1")
    assert done.exit_code == 0 and "1 removed, " in done.output and "KiB" in done.output
    assert runs(folder) == [NEW] and not (folder / "logs" / "charts" / OLD).exists()


def test_prune_keeps_active_run(folder: Path) -> None:
    os.utime(folder / "logs" / "runs" / OLD / "agent-0.jsonl")
    assert "1 removed" in call("runs", "prune", "--keep", "0").output
    assert runs(folder) == [OLD]


def test_prune_does_not_follow_links(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "logs" / "charts").symlink_to(folder / "mine")
    result = call("runs", "prune", "--keep", "0")
    assert result.exit_code == 64 and "is a link" in result.output and runs(folder) == [OLD, NEW]


def test_bundle_can_be_verified_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("runs", "bundle", "latest").exit_code == 0
    elsewhere = folder / "elsewhere"
    unpack(folder / f"{NEW}.tar.gz", elsewhere)
    expected = call("runs", "verify", NEW).output
    monkeypatch.chdir(elsewhere)
    assert call("runs", "verify", "latest").output == expected
    assert runs(elsewhere) == [NEW]


def test_bundle_does_not_overwrite(folder: Path) -> None:
    (folder / "mine.tar.gz").write_text("mine")
    result = call("runs", "bundle", "latest", "mine.tar.gz")
    assert result.exit_code == 64 and "already exists" in result.output
    assert (folder / "mine.tar.gz").read_text() == "mine"


@pytest.mark.parametrize("plan", ["{}", "nonsense"])
def test_latest_passes_over_planted_plan(folder: Path, plan: str) -> None:
    planted = folder / "logs" / "experiments" / "29991231-235959-ffffff"
    planted.mkdir(parents=True)
    (planted / "plan.json").write_text(plan)
    for words in (["show", "latest"], ["report", "latest"], ["runs", "verify", "latest"]):
        result = call(*words)
        assert result.stdout == call(*words[:-1], NEW).stdout != ""
        assert f"latest: {NEW}; passed over {planted.name}, not recorded by this user" in result.stderr
