"""``wirefault`` as a process that a test may kill, forked from a server that has imported everything.

Starting an interpreter and importing LangChain costs three seconds of CPU for each run. CI pays that price
before a release: if ``WIREFAULT_REQUIRE`` names ``processes``, the command starts as a user starts it. This
module is also the program of the forked process; its arguments are the working folder and those of
``wirefault``.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import wirefault.cli.demo as _demo
import wirefault.cli.exec as _exec
import wirefault.cli.running as _running
from tests.shared_imports import fork
from tests.support import RUN_PATIENCE_S, required
from wirefault.cli.main import main as run_command_line
from wirefault.core.interrupts import end_at_interrupt, end_quickly
from wirefault.lab import fork_server, forking
from wirefault.lab.process import Child, Process, ProcessLog, program_of, python

PROGRAM = "tests.cli_process"  # also listed in tests/shared_imports.py
COMMANDS = (_demo, _exec, _running)  # imported before the fork


class CliProcess:
    """The part of ``subprocess.Popen`` that tests use; both outputs go to one file."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *words: str, command: Sequence[str] = ()
    ) -> None:
        """``command``, if there is one, is started instead of a forked process."""
        with tempfile.NamedTemporaryFile(delete=False) as file:
            self._output = Path(file.name)
            program = python(PROGRAM, str(folder), *words)
            fresh = command or required("processes")
            streams = dict.fromkeys((1, 2), file.fileno())
            forked = None if fresh else fork(program, environ, (), streams)
            self._child: Child = forked or subprocess.Popen(
                command or [sys.executable, "-m", "wirefault", *words],
                cwd=folder,
                env=environ,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> CliProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._output.unlink()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int:
        assert self._child.returncode is not None
        return self._child.returncode

    def poll(self) -> int | None:
        return self._child.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = RUN_PATIENCE_S) -> int:
        return self._child.wait(timeout)

    def output(self) -> str:
        """Wait for the end; return the output of the process and of its children."""
        self.wait()
        return self._output.read_text(encoding="utf-8")


def main() -> None:
    """Run ``wirefault`` in a folder, with a lab whose fork server is forked, too."""
    end_at_interrupt(in_background=True)
    os.chdir(sys.argv.pop(1))
    try:
        with patch.object(forking, "start", _start_by_fork):
            run_command_line(prog_name="wirefault")
    finally:
        end_quickly()


def _start_by_fork(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    descriptors: Sequence[int],
    log: ProcessLog | None,
) -> Process:
    """``wirefault.lab.process.start`` for a fork server: fork it from this process."""
    assert threading.active_count() == 1  # a fork copies locks held by other threads
    output = log.open() if log else None
    pid = os.fork()
    if pid:
        return Process(name, forking.ForkedChild(pid, command), log, output)

    def become() -> None:
        os.setsid()
        if output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        _close_all_but(descriptors)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = list(program_of(command))
        fork_server._show_in_process_list(command)
        fork_server.main()

    end_with(become)


def end_with(program: Callable[[], object]) -> NoReturn:
    """Be the program in a forked process, and end like the interpreter without the frames before the fork."""
    try:
        program()
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:  # noqa: BLE001  # any error ends a program with its traceback
        traceback.print_exc()
        _end(1)
    _end(0)


def _close_all_but(descriptors: Sequence[int]) -> None:
    """Close what a program would not inherit, such as the launcher's end of the lifeline."""
    inherited = sorted({0, 1, 2, *descriptors})
    for low, high in pairwise([*inherited, os.sysconf("SC_OPEN_MAX")]):
        os.closerange(low + 1, high)


def _end(code: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
