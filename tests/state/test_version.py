"""A state file of another version of the lab: reported by every process that would use it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.sqlite import UnsafeDatabaseError
from wirefault.settings.settings import SettingsError
from wirefault.state.effects import check_effects
from wirefault.state.state import State, check_version
from wirefault.wiring.topology import default_topology

TABLES = (Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8")  # unnumbered
MESSAGE = "state.db belongs to another version of the lab; move it away"
COMMANDS = [("demo",), ("lab", "up"), ("run", "--lab")]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "state.db"


@pytest.fixture
def environ(path):
    topology = path.parent / "topology.json"
    default_topology("wt-old").dump(topology)
    return {**os.environ, "STATE_DB": str(path), TOPOLOGY_VARIABLE: str(topology)}


def fill(path, script):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


@pytest.mark.parametrize("script", [TABLES, "PRAGMA user_version = 99"], ids=["earlier", "later"])
def test_other_version_file_is_refused_unchanged(path, script):
    fill(path, script)
    before = path.read_bytes()
    for use in (State, check_version):
        with pytest.raises(SettingsError, match=MESSAGE):
            use(path)
    assert path.read_bytes() == before


def test_empty_and_current_version_files_are_accepted(path):
    path.touch()  # as Compose's init makes it
    check_version(path)
    with State(path) as state:
        state.insert_run("run-1", "lab", 0, "{}", "hash", 7, 1.0)
    check_version(path)
    with State(path) as state:
        assert state.run("run-1").seed == 7


def test_missing_file_is_not_created(path):
    check_version(path)
    assert not path.exists()


FOREIGN = {
    "text": (None, "it is not an SQLite database"),
    "tables": ("CREATE TABLE users (name TEXT); CREATE TABLE runs (km REAL)", "its tables are runs, users"),
    "version": ("CREATE TABLE users (name TEXT); PRAGMA user_version = 5", "its tables are users"),
    "wal": ("PRAGMA journal_mode = WAL; CREATE TABLE users (name TEXT)", "in WAL mode"),
}


@pytest.mark.parametrize(("script", "reason"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("check", [check_version, check_effects])
def test_foreign_program_file_is_refused_unchanged(path, check, script, reason):
    if script is None:
        path.write_bytes(b"no database" * 99)
    else:
        fill(path, script)
    before = path.read_bytes()
    with pytest.raises(UnsafeDatabaseError) as refusal:
        check(path)
    assert str(refusal.value).startswith(f"{path} belongs to another program: ")
    assert reason in str(refusal.value)
    assert path.read_bytes() == before and [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_report_version_before_start(path, environ, command, tmp_path):
    fill(path, TABLES)
    started = [sys.executable, "-m", "wirefault", *command]
    environ |= {"LOGS_DIR": str(tmp_path / "logs")}
    ended = subprocess.run(
        started, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, MESSAGE in ended.stderr) == (64, True)
    assert not (tmp_path / "logs" / "lab").exists()


@pytest.mark.slow
def test_manager_logs_version(path, environ):
    fill(path, TABLES)
    started = [sys.executable, "-m", "proxy_manager"]
    ended = subprocess.run(
        started, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, MESSAGE in ended.stderr) == (1, True)
