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


def test_project_without_audit_names_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init"])
    assert result.exit_code == 64 and "wirefault audit -- COMMAND" in result.output
    assert list(tmp_path.iterdir()) == []


def test_newest_audit_is_found_behind_a_newer_run_and_a_dry_run(tmp_path: Path) -> None:
    dry = "20260104-120000-dddddd"
    for name in ("20260101-120000-aaaaaa", "20260102-120000-bbbbbb", "20260103-120000-cccccc", dry):
        (tmp_path / "experiments" / name).mkdir(parents=True)
        (tmp_path / "experiments" / name / "plan.json").write_text("{}")
    (tmp_path / "experiments" / "20260102-120000-bbbbbb" / "audit.json").write_text("{}")
    (tmp_path / "experiments" / dry / "audit.json").write_text('{"questions": [], "dry_run": true}')
    assert latest_audit(tmp_path) == "20260102-120000-bbbbbb"
    assert latest_id(tmp_path) == "20260103-120000-cccccc"
    for name in ("20260101-120000-aaaaaa", "20260102-120000-bbbbbb", "20260103-120000-cccccc"):
        rmtree(tmp_path / "experiments" / name)
    with pytest.raises(InputError, match="only dry runs"):
        latest_id(tmp_path)
