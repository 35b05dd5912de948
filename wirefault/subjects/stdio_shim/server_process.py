"""The MCP server, as a process that ends with this one however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_KEEPER = str(Path(__file__).parents[1] / "keeper.py")


class ServerProcess:
    """Starts the command in ``folder`` (empty: this one's). ``keeper.py`` ends all that the command starts.

    What it says on standard error goes where this process's goes. Raises ``OSError``.
    """

    def __init__(self, command: Sequence[str], folder: str) -> None:
        lifeline, self._lifeline = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, str(lifeline), *command],
                cwd=folder or None,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[lifeline],
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(lifeline)
        assert self._popen.stdin and self._popen.stdout
        self.stdin: IO[bytes] = self._popen.stdin
        self.stdout: IO[bytes] = self._popen.stdout

    def wait(self) -> int:
        """Its exit code, as a shell has it, once it has ended."""
        code = self._popen.wait()
        return code if code >= 0 else 128 - code  # its keeper was killed

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def end_input(self) -> None:
        """Closes its standard input."""
        with suppress(OSError):
            self.stdin.close()

    def signal(self, number: int) -> None:
        """Sends it a signal, by way of its keeper."""
        with suppress(OSError):  # it has ended
            os.write(self._lifeline, bytes((number,)))

    def kill(self) -> None:
        """Ends it at once, with all that it has started."""
        self.signal(signal.SIGKILL)
