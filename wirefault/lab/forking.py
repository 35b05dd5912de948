"""The launcher's side of ``wirefault/lab/fork_server.py``: its programs start by fork, where Linux is.

What is forked is a child of the launcher as any other: it waits for it, and learns its exit code or signal.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO

from wirefault.lab.process import Fork, ProcessLog, cannot_fork, program_of, python, start

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
# for imports and a fork on a busy machine; the launcher itself starts what has not answered by then
_ANSWER_BOUND_S = 60.0
_POLL_S = 0.005


class ForkedChild:
    """A child process; its methods are those of ``subprocess.Popen``."""

    def __init__(self, pid: int, command: Sequence[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._command = command

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code, negative for a signal. Raises ``subprocess.TimeoutExpired``."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(list(self._command), timeout)
            time.sleep(_POLL_S)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


class ForkServer:
    """Forks Python programs for one lab. Raises ``OSError`` if its process cannot be started.

    ``imports``: modules that it imports at once, besides those that a program names itself.
    """

    def __init__(
        self, environ: Mapping[str, str], log: ProcessLog | None, imports: Sequence[str] = ()
    ) -> None:
        self._one_at_a_time = Lock()  # two would undo each other's claim to orphans
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            command = python("wirefault.lab.fork_server", str(theirs.fileno()), *imports)
            self._process = start("fork server", command, environ, [theirs.fileno()], log)
        except OSError:
            self._control.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.child.pid

    def fork(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        descriptors: Sequence[int],
        output: IO[bytes] | None,
    ) -> ForkedChild | None:
        """Starts a command of ``python``'s in a session of its own; None if it must be started otherwise.

        ``output`` takes what it prints, the launcher's own outputs if that is None.
        """
        outputs = [output.fileno()] * 2 if output else [1, 2]
        request = {
            "program": program_of(command),
            "command": command,
            "environ": dict(environ),
            "folder": str(Path.cwd()),
            "descriptors": [1, 2, *descriptors],
        }
        ours, theirs = socket.socketpair()
        with self._one_at_a_time, ours, _orphans_come_here():
            ours.settimeout(_ANSWER_BOUND_S)
            try:
                with theirs:
                    module = program_of(command)[0]
                    socket.send_fds(self._control, [module.encode()], [theirs.fileno()])
                line = json.dumps(request).encode() + b"\n"
                sent = socket.send_fds(ours, [line], [*outputs, *descriptors])
                ours.sendall(line[sent:])
                with ours.makefile("rb") as answers:
                    pid, parent = map(int, answers.readline().split())
                if parent != os.getpid():  # it ends, as it is not told to go on
                    return None
                ours.sendall(b"\n")
            except (OSError, ValueError):  # the server or the forked process is gone
                return None
        return ForkedChild(pid, command)

    def close(self) -> None:
        """Ends the server; what it has forked stays."""
        self._control.close()
        self._process.stop()


@contextmanager
def forking(environ: Mapping[str, str], log: ProcessLog, imports: Sequence[str] = ()) -> Iterator[Fork]:
    """Forks programs meanwhile, where a forked process can become a child of this one.

    ``environ``: what all of them have in common. ``log`` takes what is said while their modules are imported,
    and the modules that are to be imported besides. Raises ``OSError``.
    """
    if sys.platform != "linux":
        yield cannot_fork
        return
    server = ForkServer(environ, log, imports)
    try:
        yield server.fork
    finally:
        server.close()


@contextmanager
def _orphans_come_here() -> Iterator[None]:
    """Meanwhile a process whose parent ends becomes a child of this one, not of the system's first."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value)
