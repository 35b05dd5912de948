"""``wirefault`` as a process that a test may kill, forked with all that it and its lab's programs import.

Its own imports, its fork servers' and LangChain's are three seconds of a processor for each flight otherwise.
CI takes these seconds: where ``WIREFAULT_REQUIRE`` names ``processes``, it is started as a person starts it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.shared_imports import fork
from tests.support import RUN_PATIENCE_S, required
from wirefault.lab.process import Child, python

PROGRAM = "tests.launched"


class Launched:
    """As much of ``subprocess.Popen`` as is needed; what it prints, to both outputs, goes into a file."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *words: str, command: Sequence[str] = ()
    ) -> None:
        """``command`` is started in the place of the forked process, if there is one."""
        with tempfile.NamedTemporaryFile(delete=False) as output:
            self._output = Path(output.name)
            program = python(PROGRAM, str(folder), *words)
            fresh = command or required("processes")
            forked = None if fresh else fork(program, environ, (), output.file)
            self._child: Child = forked or subprocess.Popen(
                command or [sys.executable, "-m", "wirefault", *words],
                cwd=folder,
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._output.unlink()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int:
        assert self._child.returncode is not None
        return self._child.returncode

    def poll(self) -> int | None:
        return self._child.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = RUN_PATIENCE_S) -> int:
        return self._child.wait(timeout)

    def output(self) -> str:
        """All that it, and what it has started, has printed when it has ended."""
        self.wait()
        return self._output.read_text(encoding="utf-8")
