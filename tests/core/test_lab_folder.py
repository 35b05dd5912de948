"""Which lab is the one of a folder."""

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
    sample_prompts,
)


def test_in_this_checkout_its_files_are_named_as_they_lie() -> None:
    assert (lab_root(), str(sample_prompts())) == (Path(), "agent/prompts.json")
    assert [name for name in LAB_FILES if not (ROOT / name).exists()] == []


def test_elsewhere_the_lab_is_the_one_beside_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent").mkdir()
    assert lab_root() == LIBRARY.parent == ROOT


def test_a_folder_with_the_mark_is_a_lab_and_may_have_a_library(
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
