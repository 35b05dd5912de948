"""The lab of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT
from wirefault.core.lab_folder import (
    LAB_FILES,
    LIBRARY,
    MARKER,
    folder_program,
    lab_root,
    logs_folder,
    output_folder,
    sample_prompts,
)


def test_checkout_uses_its_own_files() -> None:
    assert (lab_root(), str(sample_prompts())) == (Path(), "agent/prompts.json")
    assert [name for name in LAB_FILES if not (ROOT / name).exists()] == []


def test_default_lab_is_next_to_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent").mkdir()
    assert lab_root() == LIBRARY.parent == ROOT


def test_marked_folder_is_lab_and_may_contain_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "wirefault" / "lab" / "program.py"
    program.parent.mkdir(parents=True)
    program.touch()
    assert folder_program() is None
    (tmp_path / MARKER).touch()
    assert (lab_root(), folder_program()) == (Path(), program)
    program.unlink()
    assert folder_program() is None


def test_other_folders_keep_runs_in_wirefault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs" / "runs" / "tensorboard").mkdir(parents=True)
    assert output_folder() == Path(".wirefault") and logs_folder({}) == Path(".wirefault/logs")
    assert logs_folder({"LOGS_DIR": "mine"}) == Path("mine")
    (tmp_path / MARKER).touch()
    assert output_folder() == Path() and logs_folder({}) == Path("logs")


def test_older_runs_and_bundles_stay_accessible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs" / "runs" / "20260101-120000-a1b2c3-1-method").mkdir(parents=True)
    assert output_folder() == Path()
    (tmp_path / ".wirefault").mkdir()
    assert output_folder() == Path(".wirefault")


def test_named_folder_is_used_unless_it_contains_state_folder(tmp_path: Path) -> None:
    assert output_folder(tmp_path) == tmp_path
    (tmp_path / ".wirefault").mkdir()
    assert output_folder(tmp_path) == tmp_path / ".wirefault"
