"""Files of labs in the private folder, and their sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.core.files import make_private_folder, private_file
from wirefault.core.lab_folder import hold_lab_lock, write_lab_record
from wirefault.core.private_files import LabFiles, sweep, tap_folder

OWNER = """
import sys, time
from pathlib import Path
from wirefault.core.lab_folder import hold_lab_lock, write_lab_record
from wirefault.core.private_files import LabFiles, tap_folder
LabFiles("lab-aaaaaa").take()
state = Path(sys.argv[1])
with hold_lab_lock(state), tap_folder() as tap:
    write_lab_record(state, {"token": "t"})
    (tap / "bundle.pem").touch()
    print("ready", flush=True)
    time.sleep(3600)
"""
LEFT = ("lab-aaaaaa.json", "lab-aaaaaa-1.json", "lab-aaaaaa-run.run.json", ".lab-aaaaaa.json.12ab")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    return make_private_folder()


@contextmanager
def owner(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running launcher with a tap; it is killed at the end of the block."""
    command = [sys.executable, "-c", OWNER, str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_next_start_removes_files_of_killed_launcher(folder: Path, tmp_path: Path) -> None:
    (folder / "signing_key").write_bytes(b"k" * 32)
    write_lab_record(tmp_path / "removed", {"token": "t"})
    with owner(tmp_path):
        for name in LEFT:
            (folder / name).touch()
    assert len(names(folder)) > len(LEFT)
    files = LabFiles("lab-bbbbbb")
    files.take()
    assert names(folder) == {"signing_key", "lab-bbbbbb.owner"}
    files.remove()
    assert names(folder) == {"signing_key"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGSTOP])
def test_sweep_keeps_files_of_running_launcher(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    with owner(tmp_path) as process:
        os.kill(process.pid, number)
        for name in LEFT:
            (folder / name).touch()
        before = names(folder)
        sweep()
        assert names(folder) == before > set(LEFT)
        assert {path.name[:4] for path in folder.iterdir() if path.is_dir()} == {"tap-"}
        process.kill()
        process.wait(PATIENCE_S)


def test_lock_holder_keeps_its_record(folder: Path, tmp_path: Path) -> None:
    with hold_lab_lock(tmp_path), tap_folder() as tap:
        write_lab_record(tmp_path, {"token": "t"})
        sweep()
        assert tap.exists() and private_file(tmp_path, ".json").exists()
