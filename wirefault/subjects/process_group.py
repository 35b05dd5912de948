"""A command with all that it starts, of which nothing outlives the runner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from wirefault.subjects.kept_output import KeptOutput

_KEEPER = str(Path(__file__).with_name("keeper.py"))
# how long the system may take to end what was killed
_END_BOUND_S = 10.0


class ProcessGroup:
    """Starts the command, in its own group, with a keeper that ends all of it (``keeper.py``).

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
                    [sys.executable, "-I", "-S", _KEEPER, str(lifeline), *command],
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
        # the keeper holds this pipe until nothing is left, so its end is heard of at once
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
