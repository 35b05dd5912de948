"""Signals to the reaper itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support import PATIENCE_S, ROOT

pytestmark = pytest.mark.slow

REAPER = ROOT / "wirefault" / "subjects" / "reaper.py"
WAITING = (
    "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True); input()"
)


def test_interrupted_reaper_leaves_output_unchanged() -> None:
    lifeline, end = os.pipe()
    words = [sys.executable, "-IS", str(REAPER), str(lifeline), sys.executable, "-c", WAITING]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[lifeline]) as reaper:
        assert reaper.stdout is not None
        assert reaper.stdout.readline() == b"True\n"  # the command's own SIGINT is the usual one
        reaper.send_signal(signal.SIGINT)
        output, errors = reaper.communicate(b"go on\n", timeout=PATIENCE_S)
    os.close(lifeline)
    os.close(end)
    assert (reaper.returncode, output, errors) == (0, b"", b"")
