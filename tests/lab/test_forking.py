"""A forked program equals a freshly started one, and is a child of its requester."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S, until
from wirefault.lab import own_lab
from wirefault.lab.forking import ForkedChild, ForkServer, fork_server
from wirefault.lab.process import Fork, Process, ProcessLog, cannot_fork, python, start

pytestmark = pytest.mark.slow

# prints its whole environment, and ends as requested
TOLD = """
import gc, json, os, signal, sys, threading

def targets():
    for number in sorted(os.listdir("/proc/self/fd")):
        if os.path.exists(f"/proc/self/fd/{number}"):  # the listing's own is closed again
            yield number, os.readlink(f"/proc/self/fd/{number}").partition(":")[0]

if __name__ == "__main__":
    signals = sorted(signal.valid_signals())
    print(json.dumps({
        "argv": sys.argv, "name": __name__, "main": sys.modules["__main__"].__file__, "path": sys.path,
        "environ": dict(os.environ), "folder": os.getcwd(), "umask": os.umask(0), "targets": dict(targets()),
        "handlers": [str(signal.getsignal(number)).partition(" at ")[0] for number in signals],
        "masked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "threads": threading.active_count(),
        "parent": os.getppid(), "is session": os.getsid(0) == os.getpid(), "flags": str(sys.flags),
        "output": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.write_through], "gc": gc.isenabled(),
    }))
    os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "kill" else sys.exit(int(sys.argv[1]))
"""
WAITING = """
import sys, time

if __name__ == "__main__":
    print(*sorted(sys.modules))
    time.sleep(3600)
"""


@dataclass
class Starting:
    """Starts programs in the folder, by that server or as new processes."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def log(self) -> ProcessLog:
        return ProcessLog(self.folder, self.folder / "log")

    def start(self, fork: Fork, *words: str, descriptors: Sequence[int] = ()) -> Process:
        return start(words[0], python(*words), self.environ, descriptors, self.log, fork)

    def fork(self, server: ForkServer, *words: str) -> Process:
        process = self.start(server.fork, *words)
        assert isinstance(process.child, ForkedChild)
        return process

    def facts(self, fork: Fork) -> dict[str, Any]:
        """A program's report about itself."""
        with socket.socket() as one, socket.socket() as other:
            process = self.start(fork, "told", "3", "a word", descriptors=[other.fileno(), one.fileno()])
            assert ended(process) == 3
        words: dict[str, Any] = json.loads(self.log.last_lines(1))
        return words


def ended(process: Process) -> int:
    assert process.wait(PATIENCE_S), process.last_words()
    process.stop()
    assert process.child.returncode is not None
    return process.child.returncode


@pytest.fixture
def starting(tmp_path: Path) -> Starting:
    for name, text in {"told": TOLD, "waiting": WAITING, "broken": "1 / 0"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "OWN": "Zürich \udcff"}
    return Starting(tmp_path, environ)


@pytest.fixture
def server(starting: Starting) -> Iterator[ForkServer]:
    server = ForkServer(starting.environ, None)
    yield server
    server.close()


def test_forked_process_equals_fresh_process(starting: Starting, server: ForkServer) -> None:
    with chdir(starting.folder):  # where the launcher is, which the server started elsewhere
        forked = starting.facts(server.fork)
        assert forked == starting.facts(cannot_fork)
    assert (forked["parent"], forked["argv"][1:]) == (os.getpid(), ["3", "a word"])
    assert forked["folder"] == str(starting.folder)


def test_exit_status_is_known(starting: Starting, server: ForkServer) -> None:
    ends = {("told", "0"): 0, ("told", "kill"): -signal.SIGKILL, ("broken",): 1, ("nowhere",): 1}
    assert {words: ended(starting.fork(server, *words)) for words in ends} == ends
    output = starting.log.path.read_text(encoding="utf-8")
    assert "ZeroDivisionError" in output and "No module named nowhere" in output


def test_named_functions_run_once_for_all_forks(starting: Starting) -> None:
    (starting.folder / "costly.py").write_text(
        "import os\npids = []\n\ndef compute():\n    pids.append(os.getpid())\n"
    )
    (starting.folder / "using.py").write_text("import costly\nprint(costly.pids)\n")
    server = ForkServer(starting.environ, None)
    server.prepare(["costly:compute"])
    for _ in range(2):
        assert ended(starting.fork(server, "using")) == 0
        assert starting.log.last_lines(1) == f"[{server.pid}]"
    server.close()


@pytest.mark.parametrize("word", (*own_lab._OF_MANY_RUNS, *own_lab._AGENT_IMPORTS, *own_lab._TAP_IMPORTS))
def test_imports_of_runs_exist(word: str) -> None:
    """The fork server ignores an error: each run would import and compute again."""
    module, _, function = word.partition(":")
    imported = importlib.import_module(module)
    assert not function or callable(getattr(imported, function))


def test_killed_fork_server_leaves_children_running(starting: Starting, server: ForkServer) -> None:
    forked = starting.fork(server, "waiting")
    os.kill(server.pid, signal.SIGKILL)
    fresh = starting.start(server.fork, "waiting")
    assert forked.poll() is None and not isinstance(fresh.child, ForkedChild)
    for process in (forked, fresh):
        process.stop()
        assert process.child.returncode == -signal.SIGTERM


def test_process_list_names_forked_program(starting: Starting, server: ForkServer) -> None:
    process = starting.fork(server, "waiting")
    command_line = Path(f"/proc/{process.child.pid}/cmdline").read_bytes()
    assert command_line.rstrip(b"\0").split(b"\0") == [os.fsencode(word) for word in python("waiting")]
    process.stop()


def test_only_shipped_lab_packages_are_imported(starting: Starting, server: ForkServer) -> None:
    """A user's package may have the name of a lab package."""
    assert ended(starting.fork(server, "proxy_manager", "--help")) == 0
    process = starting.fork(server, "waiting")
    until(lambda: "zipimport" in starting.log.last_lines(1))
    process.stop()
    modules = starting.log.last_lines(1).split()
    assert "starlette" in modules  # the other program's imports are there, since it was forked with them
    assert [name for name in modules if name.startswith("proxy_manager")] == []


def test_listed_imports_are_loaded_and_missing_ones_skipped(starting: Starting) -> None:
    server = ForkServer(starting.environ, None)
    try:
        server.prepare([])
        server.prepare(["colorsys", "no_such_module"])
        process = starting.fork(server, "waiting")
        until(lambda: "zipimport" in starting.log.last_lines(1))
        process.stop()
    finally:
        server.close()
    assert "colorsys" in starting.log.last_lines(1).split()


def test_processes_start_fresh_outside_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fork_server({}, ProcessLog(tmp_path, tmp_path / "log")) is None


def test_fork_server_ends_with_launcher_during_imports(starting: Starting) -> None:
    (starting.folder / "slow.py").write_text("import time\nprint('imports', flush=True)\ntime.sleep(3600)\n")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = ["wirefault.lab.fork_server", str(theirs.fileno())]
    with ours, theirs:
        server = starting.start(cannot_fork, *words, descriptors=[theirs.fileno()])
        ours.send(b"slow")
        assert until(lambda: "imports" in starting.log.last_lines(1))
    assert ended(server) == 1
