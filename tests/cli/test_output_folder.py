"""Commands in the folder of another program leave its files alone and find their own again."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import environ_in

pytestmark = pytest.mark.slow


def contents(folder: Path) -> dict[str, bytes]:
    own = folder / ".wirefault"
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path): path.read_bytes() for path in files if own not in path.parents}


def test_exec_leaves_program_files_and_git_status_unchanged(tmp_path: Path) -> None:
    for name in ("state", "logs"):
        (tmp_path / name).mkdir()
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE users (name TEXT)")
    (tmp_path / "logs" / "info.log").write_text("mine\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    before = contents(tmp_path)
    environ = environ_in(tmp_path)
    done = wirefault(tmp_path, environ, "exec", "--tap", "proxy", "--", "true")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path) == before
    assert (tmp_path / ".wirefault" / ".gitignore").read_text(encoding="utf-8").endswith("\n*\n")
    [run] = (tmp_path / ".wirefault" / "logs" / "runs").iterdir()
    for words in (("list",), ("show", "latest"), ("report", "latest"), ("runs", "verify", "latest")):
        listed = wirefault(tmp_path, environ, *words)
        assert listed.returncode == 0, listed.stderr
    assert run.name in wirefault(tmp_path.parent, environ, "list", "--out", str(tmp_path)).stdout
    status = subprocess.run(["git", "status", "-s"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert ".wirefault" not in status.stdout


def test_foreign_state_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as database:
        database.executescript("CREATE TABLE users (name TEXT)")
    done = wirefault(tmp_path, environ_in(tmp_path), "exec", "--out", ".", "--", "touch", "ran")
    assert done.returncode == 70 and not (tmp_path / "ran").exists()
    assert done.stderr.count("\n") == 1
    assert "state/state.db belongs to another program: its tables are users" in done.stderr
