"""A signal goes to the intended process or to none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, until
from wirefault.core import processes as module
from wirefault.core.processes import LIFELINE_VARIABLE, process_identity, signal_if_same, watch_lifeline

pytestmark = pytest.mark.slow
SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@contextmanager
def ended(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def test_equal_commands_are_signalled_separately() -> None:
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


def test_ps_is_used_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    ps.write_text('#!/bin/sh\nshift 3\n[ "$1" = 1 ] && echo " 1 0 Mon Jan 5 2026 init " || exit 1\n')
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(module, "_PROC", tmp_path / "none")
    assert process_identity(1) == "1 0 Mon Jan 5 2026 init"
    assert process_identity(2) == ""


CHILD = """
import os, threading
from wirefault.core.processes import watch_lifeline
closed = threading.Event()
watch_lifeline(os.environ, closed.set)
print("watching", flush=True)
print("closed" if closed.wait(60) else "still open", flush=True)
"""
LAUNCHER = f"""
import os, subprocess, sys
reading, writing = os.pipe()
environ = {{**os.environ, "{LIFELINE_VARIABLE}": str(reading)}}
subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=environ, pass_fds=[reading]).wait()
"""


@pytest.mark.slow
def test_child_notices_killed_launcher():
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout.readline() == "watching\n"
        launcher.kill()
        # ends with the child, which has the same standard output
        assert launcher.stdout.read() == "closed\n"


def called_after(environ, act):
    closed = threading.Event()
    watch_lifeline(environ, closed.set)
    act()
    return closed.wait(PATIENCE_S)


def test_callback_runs_once_when_peer_closes():
    reading, writing = os.pipe()
    closed = threading.Event()
    watch_lifeline({LIFELINE_VARIABLE: str(reading)}, closed.set)
    assert not closed.is_set()
    os.write(writing, b"whatever")
    os.close(writing)
    assert closed.wait(PATIENCE_S)
    os.close(reading)


def test_unopened_descriptor_counts_as_closed():
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert called_after({LIFELINE_VARIABLE: str(reading)}, lambda: None)


@pytest.mark.parametrize("environ", [{}, {LIFELINE_VARIABLE: ""}])
def test_without_lifeline_nothing_is_watched(environ):
    before = threading.active_count()
    watch_lifeline(environ, pytest.fail)
    assert threading.active_count() == before
