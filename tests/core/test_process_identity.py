"""A signal goes to the process that was meant, or to none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import until
from wirefault.core import process_identity as module
from wirefault.core.process_identity import process_identity, signal_if_same

pytestmark = pytest.mark.slow
SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@contextmanager
def ended(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def test_two_processes_of_one_command_are_told_apart_and_one_is_signalled() -> None:
    with subprocess.Popen(SLEEPER) as meant, subprocess.Popen(SLEEPER) as other, ended(meant, other):
        until(lambda: "pause" in process_identity(meant.pid) and "pause" in process_identity(other.pid))
        identity = process_identity(meant.pid)
        assert identity == process_identity(meant.pid) != process_identity(other.pid)
        assert not signal_if_same(other.pid, identity, signal.SIGTERM)
        assert not signal_if_same(other.pid, "", signal.SIGTERM)
        assert signal_if_same(meant.pid, identity, signal.SIGTERM)
        assert meant.wait() == -signal.SIGTERM and other.poll() is None
    assert process_identity(meant.pid) == ""
    assert not signal_if_same(meant.pid, identity, signal.SIGTERM)


def test_where_there_is_no_proc_ps_tells_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    ps.write_text('#!/bin/sh\nshift 3\n[ "$1" = 1 ] && echo " 1 0 Mon Jan 5 2026 init " || exit 1\n')
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(module, "_PROC", tmp_path / "none")
    assert process_identity(1) == "1 0 Mon Jan 5 2026 init"
    assert process_identity(2) == ""
