"""The helper of a namespace tap ends with its reaper, also where that had ended when the helper started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.subjects.wired import alive
from tests.support import PATIENCE_S, until
from wirefault.subjects.taps import helper

pytestmark = pytest.mark.slow


def test_helper_ends_with_zombie_reaper() -> None:
    with subprocess.Popen(["true"]) as reaper:
        until(lambda: not alive(reaper.pid))  # its parent, this process, has not yet asked how it ended
        words = [sys.executable, "-IS", helper.__file__, str(reaper.pid), "0", "0"]
        assert subprocess.run(words, timeout=PATIENCE_S, check=False).returncode == 0
