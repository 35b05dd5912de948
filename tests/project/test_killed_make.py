"""What a SIGKILL of make leaves: nothing, on Linux."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        subprocess.run(["setpriv", "--pdeathsig", "KILL", "true"], check=False).returncode != 0
        if sys.platform == "linux"
        else True,
        reason="needs setpriv",
    ),
]
OPTIONS = "-p tests.conftest -p no:cacheprovider -n 1"
RULE = f"""
include {ROOT}/Makefile
hold:
\t@cd {ROOT} && {sys.executable} -m pytest {OPTIONS} --rootdir $(FOLDER) $(FOLDER)/tests || exit
\t@true
"""
TEST = """
from pathlib import Path
import subprocess
import pytest

@pytest.mark.slow
def test_waits():
    Path(__file__).with_name("begun").touch()
    subprocess.run(["sleep", "600"])
"""
PATIENCE_S = 60


def processes(mark: str) -> Iterator[str]:
    """The command lines of the live processes that have this environment variable."""
    for process in Path("/proc").iterdir():
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if mark.encode() in variables and words:
            yield words


@pytest.mark.parametrize("moment", ["at once", "in a test"])
@pytest.mark.parametrize("victim", ["make", "pytest"])
def test_killed_make_or_pytest_leaves_no_process(moment: str, victim: str, tmp_path: Path) -> None:
    if (moment, victim) == ("at once", "pytest"):
        pytest.skip("it has started nothing yet")
    (tmp_path / "Makefile").write_text(RULE)
    (tmp_path / "tests" / "held").mkdir(parents=True)  # as deep as ours are
    (tmp_path / "tests" / "held" / "test_waits.py").write_text(TEST)
    mark = f"HELD_BY={tmp_path}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= dict([mark.split("=")])
    words = ["make", "-C", str(tmp_path), "hold", f"FOLDER={tmp_path}"]
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as make:
        end = time.monotonic() + PATIENCE_S
        begun = tmp_path / "tests" / "held" / "begun"
        while not (
            begun.exists() if moment == "in a test" else any("-m pytest" in each for each in processes(mark))
        ):
            assert make.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        [pid] = [make.pid] if victim == "make" else controllers(make.pid)
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + PATIENCE_S
    while left := list(processes(mark)):
        assert time.monotonic() < end, left
        time.sleep(0.05)


def controllers(make: int) -> list[int]:
    """The pytest processes that the recipe of this make runs."""
    shells = Path(f"/proc/{make}/task/{make}/children").read_text().split()
    return [
        int(each)
        for shell in shells
        for each in Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    ]
