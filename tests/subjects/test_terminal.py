"""A command on a terminal keeps it, although its output is recorded."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.slow

RUNS_AS_IS = """
import os, sys
from pathlib import Path
from wirefault.subjects.process import ProcessGroup
process = ProcessGroup(sys.argv[1:], os.environ, Path(), stdin_text=None, show="as-is")
ended = process.wait(30)
was_interrupted = process.was_interrupted
process.close()
text = process.stdout.take().text
Path(os.environ["SEEN"]).write_text(f"{ended} {process.exit_code} {was_interrupted} {text!r}")
"""
ASKS = """
import os, sys
print([os.isatty(number) for number in (0, 1, 2)], os.get_terminal_size(0).columns)
print("hello", open("/dev/tty").readline().strip())
"""
WAITS = """
import time
print("up")
time.sleep(30)
"""


class Screen:
    """A process on a terminal of 77 columns."""

    def __init__(self, program: str, streams: Sequence[int] = (0, 1, 2)) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 77, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        stdin, stdout, stderr = (slave if number in streams else subprocess.PIPE for number in (0, 1, 2))
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNS_AS_IS, sys.executable, "-u", "-c", program],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=ROOT,
        )

    def wait_for(self, text: bytes) -> None:
        seen = b""
        while text not in seen:
            seen += os.read(self._master, 1024)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> bool:
        """Wait for its end; return whether the terminal is as it was."""
        self.process.wait(30)
        same = termios.tcgetattr(self._slave) == self.before
        os.close(self._slave)
        os.close(self._master)
        return same


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return tmp_path / "seen"


def test_command_has_terminal_and_its_output_is_kept(seen: Path) -> None:
    screen = Screen(ASKS)
    screen.wait_for(b"[True, True, True] 77\r\n")
    screen.type(b"Ann\r")
    screen.wait_for(b"hello Ann\r\n")
    assert screen.end()
    assert seen.read_text("utf-8").startswith("True 0 False '[True, True, True] 77")


def test_ctrl_c_interrupts_only_command(seen: Path) -> None:
    screen = Screen(WAITS)
    screen.wait_for(b"up\r\n")
    screen.type(b"\x03")
    assert screen.end()
    assert seen.read_text("utf-8").startswith("True 1")


def test_piped_output_stays_piped(seen: Path) -> None:
    screen = Screen(ASKS, streams=(0, 2))
    screen.type(b"Ann\r")
    out, _ = screen.process.communicate(timeout=30)
    assert out.endswith(b"hello Ann\n") and b"[True, False, True]" in out
    assert screen.end()
