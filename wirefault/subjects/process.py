"""A command with all that it starts, of which nothing outlives the runner."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from wirefault.history.logs import strip_control

KEPT_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_MOST_READS = 16
_LONGEST_WORDS = 2000
_STATEMENT = re.compile(r"(?!Node\.js v)\w")  # Node ends what it says of an error with its version
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Printed:
    """The end of what was printed; ``left_out`` bytes came before it."""

    end: bytes = b""
    left_out: int = 0

    @property
    def text(self) -> str:
        return self.end.decode("utf-8", "replace")

    def as_file(self) -> bytes:
        """As it is kept, with a first line that says what is missing."""
        if not self.left_out:
            return self.end
        return f"[the first {self.left_out} bytes are left out]\n".encode() + self.end

    def last_words(self, lines: int = 5) -> str:
        """Its last lines, for an error message."""
        return "\n".join(self._lines()[-lines:])[-_LONGEST_WORDS:]

    def last_statement(self) -> str:
        """The last line that says something of its own: not a step of a trace, which is indented."""
        said = (line for line in reversed(self._lines()) if _STATEMENT.match(line))
        return next(said, self.last_words(1))[:_LONGEST_WORDS]

    def _lines(self) -> list[str]:
        return strip_control(_COLOUR.sub("", self.text)).strip().splitlines()


class KeptOutput:
    """Reads the pipe in a thread of its own until it ends; ``shown_on``: a descriptor that gets it too."""

    def __init__(self, pipe: IO[bytes], limit: int = KEPT_BYTES, shown_on: int | None = None) -> None:
        self._shown_on = shown_on
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
        """Whether the pipe came to its end in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def seen(self) -> Printed:
        """What was printed since the last ``take``."""
        self._drain()
        with self._lock:
            self._shorten(self._limit)
            return Printed(bytes(self._end), self._left_out)

    def take(self) -> Printed:
        """The same; the next one begins anew."""
        printed = self.seen()
        with self._lock:
            del self._end[: len(printed.end)]
            self._left_out = 0
        return printed

    def _read(self) -> None:
        with self._pipe:
            while not self._ended:
                select.select([self._pipe], [], [])
                self._drain()

    def _drain(self) -> None:
        """Takes up what has been printed by now."""
        with self._lock, suppress(BlockingIOError):
            for _ in range(_MOST_READS):  # it may be printed as fast as it is read
                if self._ended:
                    return
                part = os.read(self._pipe.fileno(), _READ_BYTES)
                self._ended = not part
                self._end += part
                self._show(part)
                if len(self._end) > 2 * self._limit:
                    self._shorten(self._limit)

    def _show(self, part: bytes) -> None:
        while self._shown_on is not None and part:
            try:
                part = part[os.write(self._shown_on, part) :]
            except BlockingIOError:
                select.select([], [self._shown_on], [])
            except OSError:  # nobody reads it any more, which does not keep the subject from its work
                self._shown_on = None

    def _shorten(self, limit: int) -> None:
        """Begins with a whole line where there is one: half a secret would not be known as one."""
        if len(self._end) <= limit:
            return
        cut = len(self._end) - limit
        line = self._end.find(b"\n", cut)
        cut = cut if line < 0 else line + 1
        self._left_out += cut
        del self._end[:cut]


_REAPER = str(Path(__file__).with_name("reaper.py"))
# how long the system may take to end what was killed
_END_BOUND_S = 10.0


class ProcessGroup:
    """Starts the command, in its own group, with a reaper that ends all of it (``reaper.py``).

    ``given`` is what it finds on its standard input. ``inherited`` descriptors stay open in it. ``shown``:
    what it prints goes to the standard error too, as it comes. Raises ``OSError``, or ``ValueError`` for a
    NUL in a word.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        given: str = "",
        inherited: Sequence[int] = (),
        shown: bool = False,
    ) -> None:
        lifeline, self._lifeline = os.pipe()
        try:
            with _file_with(given) as stdin:
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
        shown_on = sys.stderr.fileno() if shown else None
        self.stdout = KeptOutput(self._popen.stdout, shown_on=shown_on)
        self.stderr = KeptOutput(self._popen.stderr, shown_on=shown_on)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended in time, with all that it had started."""
        # the reaper holds this pipe until nothing is left, so its end is heard of at once
        if not self.stdout.join(timeout_s):
            return False
        self._popen.wait()
        return self.stderr.join(_END_BOUND_S)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 and the signal's number for one that a signal ended."""
        return self._popen.poll()

    def close(self) -> None:
        """Kills what still runs of it."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self.wait(_END_BOUND_S)


def _file_with(text: str) -> IO[bytes]:
    """A file, not a pipe: nobody has to wait until the command has read it."""
    file = TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
    file.write(text.encode("utf-8", "surrogatepass"))
    file.seek(0)
    return file


def exit_words(code: int | None) -> str:
    """How a process ended, in words; None for one that has not."""
    if code is None:
        return "does not answer any more"
    if code > 128:
        return f"was killed by signal {code - 128}"
    return f"ended with exit code {code}"


def children(pid: int) -> Iterator[int]:
    """Those of all its threads."""
    # pathlib would take most of the time of a look
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                yield from map(int, file.read().split())


def descendants(pid: int) -> Iterator[int]:
    """Its children, and theirs."""
    for child in list(children(pid)):
        yield child
        yield from descendants(child)


def resident_bytes(pids: Iterable[int]) -> int:
    """Their resident memory together; what they share counts for each of them."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
