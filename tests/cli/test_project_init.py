"""``wirefault init`` before any audit, and after other runs."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner

from wirefault.audit.options import latest_audit
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.evidence import latest_id

OLD, AUDIT, RUN = "20260101-120000-aaaaaa", "20260102-120000-bbbbbb", "20260103-120000-cccccc"


def test_project_without_audit_names_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init"])
    assert result.exit_code == 64 and "wirefault audit -- COMMAND" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """An audit, a newer run, and a still newer dry run."""
    logs, dry = tmp_path / "logs", "20260104-120000-dddddd"
    for name in (OLD, AUDIT, RUN, dry):
        (logs / "experiments" / name).mkdir(parents=True)
        (logs / "experiments" / name / "plan.json").write_text("{}")
    (logs / "experiments" / AUDIT / "audit.json").write_text("{}")
    (logs / "experiments" / dry / "audit.json").write_text('{"questions": [], "dry_run": true}')
    return logs


def test_newest_audit_is_found_behind_a_newer_run_and_a_dry_run(logs: Path) -> None:
    assert latest_audit(logs) == AUDIT
    assert latest_id(logs) == RUN
    for name in (OLD, AUDIT, RUN):
        rmtree(logs / "experiments" / name)
    with pytest.raises(InputError, match="only dry runs"):
        latest_id(logs)


@pytest.mark.parametrize("words", [["show", "q10"], ["init"], ["audit", "--resume", "latest"]])
def test_commands_take_the_newest_audit_behind_a_dry_run(
    logs: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(logs.parent)
    monkeypatch.setenv("LOGS_DIR", str(logs))
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 64 and AUDIT in result.output  # it cannot be read
