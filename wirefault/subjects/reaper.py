"""``python -IS reaper.py LIFELINE COMMAND ...``: runs the command and ends all its descendants with it.

One reaper runs between the runner and each process of a subject. It kills the command's descendants when the
command ends, and everything when the runner closes the pipe whose reading end is ``LIFELINE``: on purpose, at
a limit, or because the runner was killed. A byte in that pipe is the number of a signal for the command's
group. The exit code is the command's, or 128 plus the number of the signal that ended it, as in a shell.
Standard library only, since it starts with each attempt.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CANNOT_RUN = 126


def main() -> int:
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(lifeline, False)
    _set_for_this_process(_PR_SET_CHILD_SUBREAPER, 1)  # orphans become this process's children
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # its traceback would be the command's output
        signal.signal(signal.SIGINT, lambda *_: None)  # the command has the default again: exec resets it
    reaper = os.getpid()
    child = os.fork()
    if child == 0:
        _become(command, reaper)
    code = _wait(child, lifeline, woken)
    _end_all(child)
    return code


def _set_for_this_process(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _become(command: list[str], reaper: int) -> None:
    os.setsid()
    _take_terminal()
    _set_for_this_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper:  # the reaper died before this call
        os._exit(_CANNOT_RUN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec keeps that
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
    os._exit(_CANNOT_RUN)


def _take_terminal() -> None:
    """Make the terminal on a standard stream, if there is one, the controlling terminal."""
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor):
            with suppress(OSError):
                fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
            return


def _wait(child: int, lifeline: int, woken: int) -> int:
    """Return the child's exit code when it ends, or SIGKILL's when the runner closes the pipe."""
    while True:
        for ended, status in _ended():
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            number = os.read(lifeline, 1)
            if not number:
                return 128 + signal.SIGKILL
            _signal(child, number[0])
        if woken in ready:
            os.read(woken, 64)


def _signal(child: int, number: int) -> None:
    """Signal the child's group, or the child alone while it has no group yet."""
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: an ending process on macOS
        try:
            os.killpg(child, number)
        except ProcessLookupError:
            os.kill(child, number)


def _ended() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _end_all(child: int) -> None:
    """Kill the child's group and all orphans that became this process's children."""
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: an ending process on macOS
        os.killpg(child, signal.SIGKILL)
    while children := _children():
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(children[0], 0)


def _children() -> list[int]:
    """Return this process's children, where the system lists them."""
    pid = os.getpid()
    # pathlib would double the start-up time
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:  # noqa: PTH123
        return [int(word) for word in children.read().split()]
    return []


if __name__ == "__main__":
    os._exit(main())
