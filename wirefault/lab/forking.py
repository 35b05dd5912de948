"""The launcher's side of ``wirefault/lab/fork_server.py``, on Linux.

A forked process is a child of the launcher, which waits for it as for any other.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from wirefault.lab.process import ProcessLog, program_of, python, start

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
# for imports and a fork on a busy machine; then the launcher starts the program itself
_ANSWER_BOUND_S = 60.0
_POLL_S = 0.005


class ForkedChild:
    """A child process with the methods of ``subprocess.Popen``."""

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

    ``environ`` is their common environment; ``log`` takes output during imports.
    """

    def __init__(self, environ: Mapping[str, str], log: ProcessLog | None) -> None:
        self._one_at_a_time = Lock()  # concurrent calls would undo each other's subreaper setting
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            command = python("wirefault.lab.fork_server", str(theirs.fileno()))
            self._process = start("fork server", command, environ, [theirs.fileno()], log)
        except OSError:
            self._control.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.child.pid

    def prepare(self, imports: Sequence[str]) -> None:
        """Let it import modules soon, each with ``:`` and a function to call, or without."""
        if imports:  # the server takes an empty message for the end of its launcher
            with suppress(OSError):  # it is gone: ``fork`` says so
                self._control.send(" ".join(imports).encode())

    def fork(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        descriptors: Sequence[int],
        streams: Mapping[int, int],
    ) -> ForkedChild | None:
        """Start a command from ``python`` in its own session; None if it must be started otherwise."""
        request = {
            "program": program_of(command),
            "command": command,
            "environ": dict(environ),
            "folder": str(Path.cwd()),
            "descriptors": [*streams, *descriptors],
        }
        ours, theirs = socket.socketpair()
        with self._one_at_a_time, ours, _orphans_come_here():
            ours.settimeout(_ANSWER_BOUND_S)
            try:
                with theirs:
                    module = program_of(command)[0]
                    socket.send_fds(self._control, [module.encode()], [theirs.fileno()])
                line = json.dumps(request).encode() + b"\n"
                sent_bytes = socket.send_fds(ours, [line], [*streams.values(), *descriptors])
                ours.sendall(line[sent_bytes:])
                with ours.makefile("rb") as answers:
                    pid, parent = map(int, answers.readline().split())
                if parent != os.getpid():  # it ends without a confirmation
                    return None
                ours.sendall(b"\n")
            except (OSError, ValueError):  # the server or the forked process is gone
                return None
        return ForkedChild(pid, command)

    def close(self) -> None:
        """End the server; its forked processes continue."""
        self._control.close()
        self._process.stop()


def fork_server(environ: Mapping[str, str], log: ProcessLog) -> ForkServer | None:
    """A server, if forked processes can become children of this one. Raises ``OSError``."""
    return ForkServer(environ, log) if sys.platform == "linux" else None


@contextmanager
def _orphans_come_here() -> Iterator[None]:
    """Make this process the parent of orphans for the duration of the context."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value)
