"""``wirefault`` in a process that was forked with all imports: the program of ``tests/launching.py``.

Its first argument is the folder where it is to run, the others are those of ``wirefault``.
Where it would start a fork server, which imports all that the lab's programs need, it forks one.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn
from unittest.mock import patch

from wirefault.cli import demo as _demo
from wirefault.cli import exec as _exec
from wirefault.cli import running as _running
from wirefault.cli.main import main as run_command_line
from wirefault.core.interrupts import end_at_interrupt, end_quickly
from wirefault.experiments import engine as local_engine
from wirefault.lab import fork_server, forking
from wirefault.lab import own_lab as demo
from wirefault.lab.process import Process, ProcessLog, program_of

COMMANDS = (_demo, _exec, _running)  # imported to be there when they are called


def main() -> None:
    end_at_interrupt(of_background_job=True)
    os.chdir(sys.argv.pop(1))
    try:
        with (
            patch.object(forking, "start", _start_by_fork),
            patch.object(local_engine, "with_own_lab", _in_own_lab),
        ):
            run_command_line(prog_name="wirefault")
    finally:
        end_quickly()


def _in_own_lab(*arguments: Any, **more: Any) -> int:
    """As ``wirefault.lab.own_lab.with_own_lab``; a single run is forked too, as several are."""
    return demo.with_own_lab(*arguments, **{**more, "many_runs": True})


def _start_by_fork(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    descriptors: Sequence[int],
    log: ProcessLog | None,
) -> Process:
    """As ``wirefault.lab.process.start``."""
    assert threading.active_count() == 1  # another one's locks would be held for ever in what is forked
    output = log.open() if log else None
    pid = os.fork()
    if pid:
        return Process(name, forking.ForkedChild(pid, command), log, output)
    try:
        os.setsid()
        if output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        _keep_only(descriptors)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = list(program_of(command))
        fork_server._show_in_process_list(command)
        fork_server.main()
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:  # noqa: BLE001  # whatever it is ends a program, which says what it was
        traceback.print_exc()
        _end(1)
    _end(0)


def _keep_only(descriptors: Sequence[int]) -> None:
    """Closes what a program would not inherit: the end of a pipe that tells that the launcher is there."""
    inherited = sorted({0, 1, 2, *descriptors})
    for low, high in pairwise([*inherited, os.sysconf("SC_OPEN_MAX")]):
        os.closerange(low + 1, high)


def _end(code: int) -> NoReturn:
    """As the interpreter ends, but for the launcher's frames: it waits for threads first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
