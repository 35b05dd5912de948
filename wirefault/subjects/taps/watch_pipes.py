"""Notices MCP servers that the subject starts over pipes and that do not go through the lab (Linux)."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path, PurePath

from wirefault.history.events import PipeServer
from wirefault.subjects.process import descendants
from wirefault.subjects.stdio_shim.launcher import is_first_message
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, SubjectWrapper

_POLL_S, _MIN_REST = 0.03, 9
"""The pause after a look, and the same in multiples of the look's processor time."""
_LOOKS = 60
"""How often a program is looked at until it counts as no server."""
_NAMED_SO = re.compile(r"(?:^|[^a-z])(?:fast)?mcp(?:$|[^a-z])|modelcontextprotocol", re.IGNORECASE)
_LIBRARY = str(Path(__file__).parents[2]).encode() + b"/"
_LAUNCHER = re.compile(rb"/tap-[^/]+/bin/")
_SHIM = (b"wirefault", b"mcp")
_MAX_LINE = 65536


class PipeWatchedSubject(SubjectWrapper):
    """Records the MCP servers of each attempt that no fault can reach."""

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        servers = PipeServers()
        try:
            with _watching(servers):
                return self.inner(prompt, context)
        finally:
            for command in servers.commands:
                episode, attempt = context.identity.episode, context.identity.attempt
                context.record(PipeServer(time.time(), episode, attempt, command))


def watched_for_pipes(subject: Subject) -> Subject:
    """Return the subject, watched where this system shows its processes."""
    return PipeWatchedSubject(subject) if os.path.isdir("/proc/self/task") else subject  # noqa: PTH112


@contextmanager
def _watching(servers: PipeServers) -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            begun = time.thread_time()
            servers.look()
            over.wait(max(_POLL_S, _MIN_REST * (time.thread_time() - begun)))

    thread = threading.Thread(target=look, name="MCP servers over pipes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class PipeServers:
    """The servers among this process's descendants: by the first line on their input, or by their command."""

    def __init__(self) -> None:
        self._looks: dict[tuple[int, bytes], int] = {}
        self._commands: dict[str, None] = {}

    @property
    def commands(self) -> Sequence[str]:
        """The program and the script of each server, without arguments, which may have secrets."""
        return list(self._commands)

    def look(self) -> None:
        """Look at every program once. Its command changes when it executes another."""
        for pid in descendants(os.getpid()):
            with suppress(OSError):  # it has ended
                words = _words(pid)
                key = pid, b"\0".join(words)
                looks = self._looks.get(key, 0)
                if words and looks < _LOOKS:  # empty while it executes another program
                    self._looks[key] = looks + 1
                    if self._is_server(pid, words):
                        self._looks[key] = _LOOKS
                        self._commands.setdefault(_short(words))

    def _is_server(self, pid: int, words: Sequence[bytes]) -> bool:
        if not (_is_pipe(pid, 0) and _is_pipe(pid, 1)) or _is_of_lab(words):
            return False
        maker = _maker_of_pipes(pid)
        if maker is None or _is_of_lab(_words(maker)):
            return False
        text = b" ".join(words).decode(errors="replace")
        return _NAMED_SO.search(text) is not None or is_first_message(_waiting_line(pid))


def _words(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - many times a second
        return file.read().split(b"\0")[:-1]


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])


def _is_pipe(pid: int, descriptor: int) -> bool:
    return _end(pid, descriptor).startswith(("pipe:", "socket:"))


def _end(pid: int, descriptor: int) -> str:
    return os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115


def _maker_of_pipes(pid: int) -> int | None:
    """Return the ancestor that made the program's pipes; None if they are the subject's own."""
    ends = _end(pid, 0), _end(pid, 1)
    ancestor = _parent(pid)
    while ancestor not in (0, 1, os.getpid()):
        if _end(ancestor, 0) != ends[0] and _end(ancestor, 1) != ends[1]:
            return ancestor
        ancestor = _parent(ancestor)
    return None


def _is_of_lab(words: Sequence[bytes]) -> bool:
    """Whether it is a shim, a reaper or a launcher."""
    first = words[:4]
    is_shim = any((before.rpartition(b"/")[2], word) == _SHIM for before, word in pairwise(first))
    return is_shim or any(word.startswith(_LIBRARY) or _LAUNCHER.search(word) for word in first)


def _waiting_line(pid: int) -> bytes:
    """Return the line that waits unread in the program's input; empty for a socket."""
    path = f"/proc/{pid}/fd/0"
    if not stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116
        return b""
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    reading, writing = os.pipe()
    try:
        size = ctypes.CDLL(None).tee(source, writing, _MAX_LINE, 2)  # SPLICE_F_NONBLOCK
        return os.read(reading, size).partition(b"\n")[0] if size > 0 else b""
    finally:
        for descriptor in (source, reading, writing):
            os.close(descriptor)


def _short(words: Sequence[bytes]) -> str:
    texts = [word.decode(errors="replace") for word in words]
    script = next((PurePath(word).name for word in texts[1:] if not word.startswith("-")), "")
    return f"{PurePath(texts[0]).name} {script}".rstrip()
