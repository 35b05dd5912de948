"""A command's process with its output; all its descendants end with it.

The process tree is read from ``/proc`` rather than by psutil, whose ``children()`` reads every process of the
machine: 80 times slower with 100 processes, and budgets and taps look many times a second. Elsewhere than on
Linux the tree is empty.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal

from wirefault.history.logs import strip_control
from wirefault.subjects.terminal import Terminal

MAX_KEPT_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_MAX_READS = 16
_MAX_LINE = 2000
_LINE_WAIT_S = 0.2
_STATEMENT = re.compile(r"(?!Node\.js v)\w")  # Node ends an error with its version
_TRACEBACK = "Traceback (most recent call last):"
_MAX_NOTES = 3
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class OutputTail:
    """The end of an output; ``omitted`` bytes came before it."""

    end: bytes = b""
    omitted: int = 0

    @property
    def text(self) -> str:
        return self.end.decode("utf-8", "replace")

    def as_file(self) -> bytes:
        """Return the bytes to keep, with a first line that says how much is missing."""
        if not self.omitted:
            return self.end
        return f"[the first {self.omitted} bytes are left out]\n".encode() + self.end

    def last_lines(self, lines: int = 5) -> str:
        """Return its last lines, for an error message."""
        return "\n".join(self._lines()[-lines:])[-_MAX_LINE:]

    def last_statement(self) -> str:
        """Return the last line that is a statement, not an indented step of a trace.

        Of a Python traceback it is the exception; its notes come after it.
        """
        if exception := self._python_exception():
            return "; ".join(exception)[:_MAX_LINE]
        statements = (line for line in reversed(self._lines()) if _STATEMENT.match(line))
        return next(statements, self.last_lines(1))[:_MAX_LINE]

    def _python_exception(self) -> list[str]:
        """Return the exception of the last traceback with its notes; empty if more output came after it."""
        lines = self._lines()
        starts = [at for at, line in enumerate(lines) if line.startswith(_TRACEBACK)]
        rest = [line.strip() for line in lines[starts[-1] + 1 :] if line[:1].strip()] if starts else []
        return rest if len(rest) <= 1 + _MAX_NOTES else []

    def _lines(self) -> list[str]:
        return strip_control(_COLOUR.sub("", self.text)).strip().splitlines()


class OutputReader:
    """Reads a pipe in a thread to its end, so that the writer never waits.

    ``shown_on`` is a copy's descriptor. The copy passes ``redact``, line by line where lines come whole, or
    ``at_once`` as it comes.
    """

    def __init__(
        self,
        pipe: IO[bytes],
        limit: int = MAX_KEPT_BYTES,
        shown_on: int | None = None,
        redact: Callable[[str], str] = str,
        *,
        at_once: bool = False,
    ) -> None:
        self._shown_on = shown_on
        self._at_once = at_once
        self._redact = redact
        self._unshown = bytearray()
        self._pipe = pipe
        self._limit = limit
        self._lock = threading.Lock()
        self._end = bytearray()
        self._left_out = 0
        self._ended = False
        os.set_blocking(pipe.fileno(), False)
        self._closed = threading.Event()
        threading.Thread(target=self._read, name="output of the subject", daemon=True).start()

    def join(self, timeout_s: float | None) -> bool:
        """Whether the pipe ended in time."""
        # not Thread.join, which after an interruption treats a running thread as ended (bpo-45274)
        return self._closed.wait(timeout_s)

    def seen(self) -> OutputTail:
        """Return the output since the last ``take``."""
        self._drain()
        with self._lock:
            self._shorten(self._limit)
            return OutputTail(bytes(self._end), self._left_out)

    def take(self) -> OutputTail:
        """Return the output since the last ``take``, and start anew."""
        printed = self.seen()
        with self._lock:
            del self._end[: len(printed.end)]
            self._left_out = 0
        return printed

    def _read(self) -> None:
        try:
            with self._pipe:
                while not self._ended:
                    bound_s = _LINE_WAIT_S if self._unshown else None
                    readable, _, _ = select.select([self._pipe], [], [], bound_s)
                    if readable:
                        self._drain()
                    else:
                        with self._lock:
                            self._show_until(len(self._unshown))
        finally:
            self._closed.set()

    def _drain(self) -> None:
        """Read all that is available now."""
        with self._lock, suppress(BlockingIOError):
            for _ in range(_MAX_READS):  # the writer may be as fast as this reader
                if self._ended:
                    return
                part = self._read_part()
                self._ended = not part
                self._end += part
                if self._shown_on is not None:
                    self._unshown += part
                    is_long = self._ended or self._at_once or len(self._unshown) > self._limit
                    self._show_until(len(self._unshown) if is_long else self._unshown.rfind(b"\n") + 1)
                if len(self._end) > 2 * self._limit:
                    self._shorten(self._limit)

    def _read_part(self) -> bytes:
        try:
            return os.read(self._pipe.fileno(), _READ_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""  # the end of a terminal

    def _show_until(self, end: int) -> None:
        text = bytes(self._unshown[:end]).decode("utf-8", "surrogateescape")
        del self._unshown[:end]
        self._show(self._redact(text).encode("utf-8", "surrogateescape"))

    def _show(self, part: bytes) -> None:
        while self._shown_on is not None and part:
            try:
                part = part[os.write(self._shown_on, part) :]
            except BlockingIOError:
                select.select([], [self._shown_on], [])
            except OSError:  # its reader is gone, but the subject must continue
                self._shown_on = None

    def _shorten(self, limit: int) -> None:
        """Cut at the start of a line if there is one: half a secret could not be redacted."""
        if len(self._end) <= limit:
            return
        cut = len(self._end) - limit
        line = self._end.find(b"\n", cut)
        cut = cut if line < 0 else line + 1
        self._left_out += cut
        del self._end[:cut]


_REAPER = str(Path(__file__).with_name("reaper.py"))
# for killed processes to end
_END_BOUND_S = 10.0
# for an interrupted command to end by the user's signal, and by SIGTERM
_GRACE_S = 3.0


class ProcessGroup:
    """Runs the command in its own process group under a reaper that ends all of it (``reaper.py``).

    Raises ``OSError``, or ``ValueError`` for a NUL in a word.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        stdin_text: str | None = "",
        # descriptors that stay open in the command
        inherited: Sequence[int] = (),
        # copies its output to standard error; "as-is": each stream to the same one of this process, and on a
        # terminal the command has a terminal
        show: bool | Literal["as-is"] = False,
        # removes secrets from that copy
        redact: Callable[[str], str] = str,
    ) -> None:
        """``stdin_text``: None for this process's input."""
        lifeline, self._lifeline = os.pipe()
        self._cutting = threading.Lock()
        self._terminal = Terminal(own_input=stdin_text is None) if show == "as-is" else None
        slaves = self._terminal.slaves if self._terminal else {}
        try:
            with _file_with(stdin_text or "") as file:
                self._popen = subprocess.Popen(
                    [sys.executable, "-I", "-S", _REAPER, str(lifeline), *command],
                    env=dict(environ),
                    cwd=folder,
                    stdin=slaves.get(0) if stdin_text is None else file,
                    stdout=slaves.get(1, subprocess.PIPE),
                    stderr=slaves.get(2, subprocess.PIPE),
                    pass_fds=[lifeline, *inherited],
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._lifeline)
            if self._terminal:
                self._terminal.start()
                self._terminal.close()
            raise
        finally:
            os.close(lifeline)
        if self._terminal:
            self._terminal.start()
        self.stdout = self._reader(1, self._popen.stdout, show, redact)
        self.stderr = self._reader(2, self._popen.stderr, show, redact)

    def _reader(
        self,
        descriptor: int,
        pipe: IO[bytes] | None,
        show: bool | Literal["as-is"],
        redact: Callable[[str], str],
    ) -> OutputReader:
        shown_on = (descriptor if show == "as-is" else 2) if show else None
        master = self._terminal.output(descriptor) if self._terminal else None
        if master is not None:
            pipe = os.fdopen(master, "rb")
        assert pipe
        return OutputReader(pipe, shown_on=shown_on, redact=redact, at_once=master is not None)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time with all its descendants."""
        # the reaper holds this pipe until all have ended
        if not self.stdout.join(timeout_s):
            return False
        self._popen.wait()
        return self.stderr.join(_END_BOUND_S)

    def interrupt(self, number: int) -> None:
        """Pass the signal on, then send SIGTERM, each with time to end; ``close`` kills the rest."""
        for each in dict.fromkeys((number, signal.SIGTERM)):
            with suppress(OSError):  # it has ended
                os.write(self._lifeline, bytes([each]))
            if self.wait(_GRACE_S):
                return

    @property
    def was_interrupted(self) -> bool:
        """Whether it failed after Ctrl-C in its terminal."""
        return bool(self.exit_code) and self._terminal is not None and self._terminal.interrupted

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 plus the signal's number if a signal ended it."""
        return self._popen.poll()

    def kill(self, *, grace_s: float | None) -> bool:
        """Kill all that still runs, first by SIGTERM unless ``grace_s`` is None; whether all is dead."""
        if grace_s is not None:
            with suppress(OSError):  # it has ended
                os.write(self._lifeline, bytes([signal.SIGTERM]))
            if self.wait(grace_s):
                return True
        self._cut_lifeline()
        return self.wait(_END_BOUND_S)

    def _cut_lifeline(self) -> None:
        with self._cutting:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def close(self) -> None:
        """Kill all that still runs."""
        self._cut_lifeline()
        self.wait(_END_BOUND_S)
        if self._terminal:
            self._terminal.close()
            self._terminal = None


def _file_with(text: str) -> IO[bytes]:
    """Return a file with the text: unlike a pipe, writing it never blocks."""
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(text.encode("utf-8", "surrogatepass"))
    file.seek(0)
    return file


def exit_description(code: int | None) -> str:
    """Say how a process ended; None for one that has not."""
    if code is None:
        return "no longer answers"
    if code > 128:
        return f"was killed by signal {code - 128}"
    return f"ended with exit code {code}"


def children(pid: int) -> Iterator[int]:
    """Yield the children of all its threads."""
    # pathlib would take most of the time
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                yield from map(int, file.read().split())


def descendants(pid: int, without: Collection[int] = ()) -> Iterator[int]:
    """Yield its children and theirs; those ``without`` and theirs are left out."""
    for child in list(children(pid)):
        if child not in without:
            yield child
            yield from descendants(child, without)


def resident_bytes(pids: Iterable[int]) -> int:
    """Return their resident memory in total; shared pages count for each of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
