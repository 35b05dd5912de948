"""Runs a command of the user that kills or resumes an agent which the lab has not started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from wirefault.subjects.killing import LabFailed

_MAX_LINE = 300
_END_OF_OUTPUT = 4096


def run_user_command(
    key: str, words: Sequence[str], environ: Mapping[str, str], folder: Path, seconds: float
) -> None:
    """Run it to its end; processes that it leaves in the background stay.

    ``key``: where the wiring has it, for the message. Raises ``LabFailed`` in one line if it cannot run,
    fails or takes longer.
    """
    with TemporaryFile() as output:  # a pipe would stay open as long as a process in the background
        try:
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LabFailed(f"kill_subject: {key}: {words[0]}: {reason}") from None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabFailed(f"kill_subject: {key}: {words[0]}: not done within {seconds:g} s") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            output.seek(max(0, output.tell() - _END_OF_OUTPUT))
            lines = output.read().decode("utf-8", "replace").strip().splitlines() or ["no output"]
            why = lines[-1][:_MAX_LINE]
            raise LabFailed(f"kill_subject: {key}: {words[0]}: exit code {code}: {why}")
