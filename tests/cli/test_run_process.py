"""The process of one run, as a launcher starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirefault.cli.run_process import main


def test_dead_launcher_ends_run_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(tmp_path / "lab-1-run.run.json")) == 70
    assert capsys.readouterr().err == "error: the launcher ended before the run began\n"
