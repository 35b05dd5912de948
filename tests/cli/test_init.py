"""``wirefault lab init`` from a checkout; tests/package has it from an installation."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wirefault.cli.main import main
from wirefault.core.lab_folder import LAB_FILES, MARKER


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str) -> Result:
    return CliRunner().invoke(main, ["lab", "init", *words])


def test_new_folder_is_complete_and_next_command_named(folder: Path) -> None:
    result = init("new/lab")
    assert result.exit_code == 0 and "next: cd new/lab && wirefault demo" in result.output
    wanted = (*LAB_FILES, MARKER, "wirefault/__main__.py", "agent/prompts.json")
    assert [name for name in wanted if not (folder / "new/lab" / name).exists()] == []
    assert not list(folder.rglob("__pycache__"))


@pytest.mark.parametrize("there", ["docker-compose.yaml", ".env.example", "wirefault", MARKER])
def test_existing_file_is_named_and_nothing_written(folder: Path, there: str) -> None:
    (folder / there).touch()
    result = init()
    assert result.exit_code == 64 and f"{there} already exists" in result.output
    assert [path.name for path in folder.iterdir()] == [there]


def test_file_as_folder_is_error(folder: Path) -> None:
    (folder / "file").touch()
    result = init("file")
    assert result.exit_code == 70 and result.output.startswith("Error: file")
