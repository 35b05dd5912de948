"""Kept because it saves two thirds of the CPU: three e2e test files take 33 s with it, 109 s without.

``program.py wirefault.lab.fork_server DESCRIPTOR`` imports what a lab's programs import and forks the
programs. The descriptor is a socket on which the launcher (``wirefault/lab/forking.py``) names a module and
hands over a connection, or names more modules to import (``MODULE[:FUNCTION] ...``) and functions to call,
which compute what the programs would each compute. The forked process becomes a child of the launcher, not of
this server, so killing the server does not affect it.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wirefault.core.lab_folder import LAB_FILES, lab_root
from wirefault.core.private_files import sweep_after
from wirefault.lab.program import run_program

MAX_NAME_LENGTH = 1024
MAX_DESCRIPTORS = 250  # Linux hands over 253 at once
_POLL_S = 0.0005
_LOOK_S = 0.25


def main() -> None:
    """Serve until the launcher closes the socket; in a forked process run the program."""
    try:
        with socket.socket(fileno=int(sys.argv[1])) as control:
            connection = _fork_on_request(control)
    except KeyboardInterrupt:  # the launcher starts the programs itself
        return
    if connection is None:
        sweep_after(os.environ.get("LAB_ID", ""))  # if the launcher was killed before another part ran
        return
    os.setsid()
    with connection:
        request, descriptors = _agreed_request(connection)
    _place(descriptors, request["descriptors"])  # last, since they may take the connection's number
    # set by the interpreter at its start
    own = {name: value for name, value in os.environ.items() if name == "LC_CTYPE"}
    os.environ.clear()
    os.environ.update({**own, **request["environ"]})
    os.chdir(request["folder"])  # the launcher may have changed its folder
    program: list[str] = request["program"]
    _forget_programs_but(program[0])
    run_program(program)


@contextmanager
def _ending_with_launcher(control: socket.socket) -> Iterator[None]:
    """End this process soon after the launcher, also during imports, which may take seconds.

    By a timer, since a process with threads should not fork.
    """
    launcher = select.poll()
    launcher.register(control, 0)  # an end is always reported

    def look(*_: object) -> None:
        if launcher.poll(0):
            sweep_after(os.environ.get("LAB_ID", ""))
            os._exit(1)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _fork_on_request(control: socket.socket) -> socket.socket | None:
    """In a forked process the connection with its request; None once the launcher is gone."""
    while True:
        named, descriptors, *_ = socket.recv_fds(control, MAX_NAME_LENGTH, 1)
        if not named:
            return None
        with _ending_with_launcher(control):
            if not descriptors:
                _prepare(named.decode().split())
                continue
            _import_what_it_imports(named.decode())
        gc.freeze()  # a collection would copy shared memory
        with socket.socket(fileno=descriptors[0]) as connection:
            if _is_forked():
                return connection.dup()


def _prepare(words: Sequence[str]) -> None:
    for word in words:
        module, _, function = word.partition(":")
        with suppress(Exception):  # a program that needs the module reports the error in its log
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def _import_what_it_imports(module: str) -> None:
    """Import the module for its dependencies and forget it: it will run as ``__main__``."""
    path = list(sys.path)
    sys.path.insert(0, str(lab_root().resolve()))
    with suppress(Exception):  # the program reports the error in its log
        spec = importlib.util.find_spec(module)
        name = f"{module}.__main__" if spec and spec.submodule_search_locations else module
        importlib.import_module(name)
        del sys.modules[name]
    sys.path[:] = path


def _is_forked() -> bool:
    """True in the grandchild, whose parent has ended: as an orphan it is the launcher's child."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    parent = os.getpid()
    try:
        grandchild = os.fork()
    except OSError:  # no more processes: the connection closes, and the launcher starts the program itself
        os._exit(1)
    if grandchild:
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    return True


def _agreed_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The request and its descriptors; the process ends unless the launcher confirms."""
    first, descriptors, *_ = socket.recv_fds(connection, 1, MAX_DESCRIPTORS)
    if not first:  # the launcher was killed meanwhile
        os._exit(1)
    with connection.makefile("rb") as stream:
        request: dict[str, Any] = json.loads(first + stream.readline())
        _show_in_process_list(request["command"])
        try:
            connection.sendall(b"%d %d\n" % (os.getpid(), os.getppid()))
            is_agreed = bool(stream.readline())
        except OSError:  # the launcher was killed meanwhile
            is_agreed = False
        if not is_agreed:
            os._exit(1)
    return request, descriptors


def _place(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Move the descriptors to the numbers that the program expects, in two steps to avoid collisions."""
    above = max(*numbers, *descriptors) + 1
    for descriptor, number in [
        (fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above), number)
        for descriptor, number in zip(descriptors, numbers, strict=True)
    ]:
        os.dup2(descriptor, number)
        os.close(descriptor)
    for descriptor in set(descriptors) - set(numbers):
        os.close(descriptor)


def _show_in_process_list(command: Sequence[str]) -> None:
    """Make ``ps`` show the command, as far as it fits into this process's argument memory."""
    with suppress(OSError, ValueError, IndexError):
        # the name, in parentheses, may hold spaces; see proc(5) for the 46 fields from there
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        words = b"\0".join(os.fsencode(word) for word in command)[: end - start - 1]
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(words.ljust(end - start, b"\0"))


def _forget_programs_but(module: str) -> None:
    """Forget the lab's other packages: a user's package may have the same name."""
    own = module.partition(".")[0]
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top in LAB_FILES and top != own:
            del sys.modules[name]


if __name__ == "__main__":
    main()
