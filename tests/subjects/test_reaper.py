"""After any kill nothing of a subject is left, neither in its process group nor outside."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.wired import Wired, alive, pid_in
from tests.support import until

pytestmark = pytest.mark.slow

RUNNER = """
import sys
from collections.abc import Iterator
from pathlib import Path
from tests.subjects.wired import Wired
Wired(Path(sys.argv[1])).ask(sys.argv[2])
"""
# A subject's own work, and a daemon that has left its group and session.
WORK = "echo $$ > main; setsid sh -c 'echo $$ > daemon; exec sleep 600' & exec sleep 600"
MODULE = f"""
import subprocess
def ask(prompt):
    subprocess.run(["sh", "-c", {WORK!r}])
"""
SUBJECTS = {
    "command": {"command": ["sh", "-c", WORK], "folder": "."},
    "service": {"service": ["sh", "-c", WORK], "url": "http://127.0.0.1:9/", "ready_within": 600},
    "python": {"python": "asleep:ask"},
}


@pytest.fixture
def runner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A process that runs a working subject of that kind."""
    Wired(tmp_path).file("asleep.py", MODULE)
    words = [sys.executable, "-c", RUNNER, str(tmp_path), json.dumps(SUBJECTS[request.param])]
    runner = os.spawnv(os.P_NOWAIT, sys.executable, words)
    pids = [runner]
    try:
        pids += [pid_in(tmp_path / name) for name in ("main", "daemon")]
        yield runner
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(runner, 0)


@pytest.mark.parametrize("runner", SUBJECTS, indirect=True)
def test_killed_runner_leaves_no_process(tmp_path: Path, runner: int) -> None:
    pids = [pid_in(tmp_path / name) for name in ("main", "daemon")]
    os.kill(runner, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize("runner", ["command"], indirect=True)
def test_command_ends_with_reaper(tmp_path: Path, runner: int) -> None:
    pid = pid_in(tmp_path / "main")
    [reaper] = Path(f"/proc/{runner}/task/{runner}/children").read_text(encoding="utf-8").split()
    os.kill(int(reaper), signal.SIGKILL)
    until(lambda: not alive(pid))
