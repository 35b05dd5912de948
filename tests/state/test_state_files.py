"""The lock of a live run's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirefault.state.state_files import RunLock

HOLD = """
import sys
from pathlib import Path
from wirefault.state.state_files import RunLock

lock = RunLock(Path(sys.argv[1]), "run-1")
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_killed_process_releases_lock_and_file_can_be_removed(tmp_path: Path) -> None:
    seen = RunLock(tmp_path, "run-1")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        assert seen.is_held()
        holder.kill()
        holder.wait()
    assert not seen.is_held()
    seen.remove()
    assert list(tmp_path.iterdir()) == []


def test_released_lock_leaves_no_file(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, "run-1")
    assert lock.take() and not RunLock(tmp_path, "run-1").take()
    assert lock.is_held()
    lock.free()
    lock.free()
    assert not lock.is_held() and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run_id", ["../run", "/run", "a\0b", "pipe", "", "x" * 300])
def test_foreign_file_is_not_lock(tmp_path: Path, run_id: str) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    os.mkfifo(folder / "pipe.run")
    (tmp_path / "run.run").touch()
    lock = RunLock(folder, run_id)
    assert not lock.is_held()
    lock.remove()
    assert (tmp_path / "run.run").exists()


def test_folder_without_locks_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lock = RunLock(tmp_path / "file", "run-1")
    lock.take()
    assert not lock.is_held()
    lock.free()
