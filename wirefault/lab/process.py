"""The processes of a lab: each in its own session, with an output file and a lifeline to the launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from wirefault.core.errors import UserError
from wirefault.core.files import open_shared, read_shared_tail
from wirefault.core.interrupts import SignalFlag
from wirefault.history.logs import strip_control

_STOP_BOUND_S = 5.0
_LAST_WORDS_BYTES = 16 * 1024


@dataclass(frozen=True)
class ProcessLog:
    """The output file of a process, below the shared folder ``root``."""

    root: Path
    path: Path

    def open(self) -> IO[bytes]:
        """Open for appending. Raises ``OSError``."""
        return os.fdopen(open_shared(self.root, self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")

    def last_lines(self, count: int) -> str:
        """Its last lines, for an error message; empty if unreadable."""
        try:
            end = read_shared_tail(self.root, self.path, _LAST_WORDS_BYTES)
        except OSError:
            return ""
        return strip_control("\n".join(end.decode("utf-8", "replace").splitlines()[-count:]))


class Child(Protocol):
    """The used part of ``subprocess.Popen``."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...

    def send_signal(self, sig: int) -> None: ...


# from a command of ``python``, its environment, inherited descriptors, and the launcher's descriptors for its
# standard streams by number: without 0 it has no input
Fork = Callable[[Sequence[str], Mapping[str, str], Sequence[int], Mapping[int, int]], Child | None]


@dataclass
class Process:
    """A child process; ``log`` is None if it prints to the launcher's output."""

    name: str
    child: Child
    log: ProcessLog | None
    output: IO[bytes] | None

    def poll(self) -> int | None:
        return self.child.poll()

    def signal(self, number: signal.Signals) -> None:
        if self.child.poll() is None:
            self.child.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time."""
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if it does not end."""
        self.signal(signal.SIGTERM)
        if not self.wait(_STOP_BOUND_S):
            self.signal(signal.SIGKILL)
            self.wait(_STOP_BOUND_S)
        if self.output:
            self.output.close()

    def last_words(self, lines: int = 5) -> str:
        """Its last output, for an error message."""
        return self.log.last_lines(lines) if self.log else ""


_PYTHON = (sys.executable, "-P", str(Path(__file__).with_name("program.py")))


def python(module: str, *arguments: str) -> list[str]:
    """The command for a module of the library or of the lab, whatever the working directory contains."""
    return [*_PYTHON, module, *arguments]


def program_of(command: Sequence[str]) -> Sequence[str]:
    """Module and arguments of a command from ``python``."""
    return command[len(_PYTHON) :]


def cannot_fork(*_: object) -> None:
    """The ``Fork`` without a fork server."""


def start(
    name: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    descriptors: Sequence[int],
    log: ProcessLog | None,
    fork: Fork = cannot_fork,
    *,
    own_input: bool = False,
) -> Process:
    """Start the command in its own session, so that Ctrl-C reaches only the launcher. Raises ``OSError``.

    ``fork`` is tried first. With ``own_input`` it reads the launcher's input.
    """
    output = log.open() if log else None
    environ = {**environ, "PYTHONUNBUFFERED": "1"}
    streams = dict.fromkeys((1, 2), output.fileno()) if output else {1: 1, 2: 2}
    if own_input and _may_read_input():
        streams[0] = 0
    child = fork(command, environ, descriptors, streams) or subprocess.Popen(
        command,
        env=environ,
        stdin=streams.get(0, subprocess.DEVNULL),
        stdout=streams[1],
        stderr=streams[2],
        pass_fds=list(descriptors),
        start_new_session=True,
    )
    return Process(name, child, log, output)


def _may_read_input() -> bool:
    """Whether standard input is open, and not the terminal of a program in the foreground."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def interruptible() -> Iterator[SignalFlag]:
    """SIGINT and SIGTERM only set the flag, so that no process is lost while it starts.

    Another thread than the main one gets no signals, and leaves the handlers alone.
    """
    interrupted = SignalFlag()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupted.set) for number in signals}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_to_stderr(message: str) -> None:
    """For the launcher's messages: standard output belongs to the run."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def end_group(process: Process) -> None:
    """Kill the rest of the process's session."""
    try:
        os.killpg(process.child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # PermissionError: on macOS, for a process that is ending
        return


class LabError(UserError):
    """The lab could not start or lost a part; the message includes the part's last output."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason + details)
        self.reason = reason


class LabProcesses:
    """A lab's processes by name, in starting order."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    def add(self, process: Process) -> None:
        self._processes[process.name] = process

    def take(self, name: str) -> Process | None:
        """Remove and return that process, for the caller to stop; None without it."""
        return self._processes.pop(name, None)

    def check(self) -> None:
        """Raise ``LabError`` if one has ended."""
        for process in self._processes.values():
            code = process.poll()
            if code is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                words = process.last_words()
                # empty logs are removed
                log = f"; its log is {process.log.path}\n{words}" if process.log and words else ""
                raise LabError(f"{process.name} {how}", log)

    def dead(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def pids(self) -> dict[str, int]:
        return {name: process.child.pid for name, process in self._processes.items()}

    def stop(self) -> None:
        """Stop all of them and their children."""
        for process in self._processes.values():
            process.signal(signal.SIGTERM)  # all at once, so that none waits for another
        while self._processes:
            _, process = self._processes.popitem()
            process.stop()
            end_group(process)
