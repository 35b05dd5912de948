"""A command's process with its output; all its descendants end with it.

The process tree is read from ``/proc`` rather than by psutil, whose ``children()`` reads every process of the
machine: 80 times slower with 100 processes, and budgets and taps look many times a second. Elsewhere than on
Linux the tree is empty.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from wirefault.history.logs import strip_control

MAX_KEPT_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_MAX_READS = 16
_MAX_LINE = 2000
_LINE_WAIT_S = 0.2
_STATEMENT = re.compile(r"(?!Node\.js v)\w")  # Node ends an error with its version
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
        """Return the last line that is a statement, not an indented step of a trace."""
        statements = (line for line in reversed(self._lines()) if _STATEMENT.match(line))
        return next(statements, self.last_lines(1))[:_MAX_LINE]

    def _lines(self) -> list[str]:
        return strip_control(_COLOUR.sub("", self.text)).strip().splitlines()


class OutputReader:
    """Reads a pipe in a thread to its end, so that the writer never waits.

    ``shown_on`` is a copy's descriptor. The copy passes ``redact``, line by line where lines come whole.
    """

    def __init__(
        self,
        pipe: IO[bytes],
        limit: int = MAX_KEPT_BYTES,
        shown_on: int | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._shown_on = shown_on
        self._redact = redact
        self._unshown = bytearray()
        self._pipe = pipe
        self._limit = limit
        self._lock = threading.Lock()
        self._end = bytearray()
        self._left_out = 0
        self._ended = False
        os.set_blocking(pipe.fileno(), False)
        self._thread = threading.Thread(target=self._read, name="output of the subject", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float | None) -> bool:
        """Whether the pipe ended in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

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
        with self._pipe:
            while not self._ended:
                readable, _, _ = select.select([self._pipe], [], [], _LINE_WAIT_S if self._unshown else None)
                if readable:
                    self._drain()
                else:
                    with self._lock:
                        self._show_until(len(self._unshown))

    def _drain(self) -> None:
        """Read all that is available now."""
        with self._lock, suppress(BlockingIOError):
            for _ in range(_MAX_READS):  # the writer may be as fast as this reader
                if self._ended:
                    return
                part = os.read(self._pipe.fileno(), _READ_BYTES)
                self._ended = not part
                self._end += part
                if self._shown_on is not None:
                    self._unshown += part
                    is_long = self._ended or len(self._unshown) > self._limit
                    self._show_until(len(self._unshown) if is_long else self._unshown.rfind(b"\n") + 1)
                if len(self._end) > 2 * self._limit:
                    self._shorten(self._limit)

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


class ProcessGroup:
    """Runs the command in its own process group under a reaper that ends all of it (``reaper.py``).

    Raises ``OSError``, or ``ValueError`` for a NUL in a word.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        stdin_text: str = "",
        # descriptors that stay open in the command
        inherited: Sequence[int] = (),
        # copies its output to standard error
        shown_live: bool = False,
        # removes secrets from that copy
        redact: Callable[[str], str] = str,
    ) -> None:
        lifeline, self._lifeline = os.pipe()
        try:
            with _file_with(stdin_text) as stdin:
                self._popen = subprocess.Popen(
                    [sys.executable, "-I", "-S", _REAPER, str(lifeline), *command],
                    env=dict(environ),
                    cwd=folder,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[lifeline, *inherited],
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)
        assert self._popen.stdout and self._popen.stderr
        shown_on = sys.stderr.fileno() if shown_live else None
        self.stdout = OutputReader(self._popen.stdout, shown_on=shown_on, redact=redact)
        self.stderr = OutputReader(self._popen.stderr, shown_on=shown_on, redact=redact)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time with all its descendants."""
        # the reaper holds this pipe until all have ended
        if not self.stdout.join(timeout_s):
            return False
        self._popen.wait()
        return self.stderr.join(_END_BOUND_S)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 plus the signal's number if a signal ended it."""
        return self._popen.poll()

    def close(self) -> None:
        """Kill all that still runs."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self.wait(_END_BOUND_S)


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


def descendants(pid: int) -> Iterator[int]:
    """Yield its children and theirs."""
    for child in list(children(pid)):
        yield child
        yield from descendants(child)


def resident_bytes(pids: Iterable[int]) -> int:
    """Return their resident memory in total; shared pages count for each of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
