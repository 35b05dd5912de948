"""What runs the tests side by side, run by pytest on tests of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import ROOT, RUN_PATIENCE_S, until

pytestmark = pytest.mark.slow

CONFTEST = """
import os, pytest
from pathlib import Path
from tests.side_by_side import SideBySide

NOTES = Path(__file__).with_name("notes")

def note(*words):
    with NOTES.open("a") as notes:
        print(*words, os.getpid(), file=notes)

def pytest_configure(config):
    config.pluginmanager.register(SideBySide(2, lambda test: test.partition("::")[0]))

@pytest.fixture(scope="session", autouse=True)
def session():
    note("up")
    yield
    note("down")

@pytest.fixture(autouse=True)
def noted(request, tmp_path):
    note(request.node.name)
    return tmp_path
"""


def run(folder: Path, *options: str, **files: str) -> subprocess.Popen[str]:
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").touch()
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=RUN_PATIENCE_S)
    return process.returncode, output


def notes(folder: Path) -> list[tuple[str, str]]:
    lines = (folder / "notes").read_text(encoding="utf-8").splitlines()
    return [(words[0], words[-1]) for line in lines if (words := line.split())]


MEETING = """
from pathlib import Path
import time

def test_{own}(noted):
    here = Path(__file__).parent
    (here / "{own}").touch()
    while not (here / "{other}").exists():
        time.sleep(0.001)
    assert noted.parents[1].name.startswith("pytest-")

def test_{own}_again():
    print("said by {own}")
    assert "{own}" == "one"

def test_{own}_skipped():
    __import__("pytest").skip("no reason")
"""


def test_two_files_are_run_at_once_each_by_one_process_and_told_of_as_ever(tmp_path: Path) -> None:
    files = {f"test_{own}": MEETING.format(own=own, other=other) for own, other in ("ab", "ba")}
    files = {name: text.replace('== "one"', '== "a"') for name, text in files.items()}
    code, output = said(run(tmp_path, **files))
    assert code == 1 and "1 failed, 3 passed, 2 skipped" in output
    assert "said by b" in output and "assert 'b' == 'a'" in output and "said by a" not in output
    of = {name: {pid for noted, pid in notes(tmp_path) if noted.startswith(f"test_{name}")} for name in "ab"}
    assert len(of["a"]) == len(of["b"]) == 1 and of["a"] != of["b"]
    for pid in (*of["a"], *of["b"]):  # what a whole session shares is set up and taken down by each
        own = [name for name, noted in notes(tmp_path) if noted == pid]
        assert (own[0], own[-1], own.count("up")) == ("up", "down", 1) and len(own) == 5


DYING = """
import os, signal

def test_before():
    pass

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    pass
"""
FINE = "def test_fine():\n    pass\n"


def test_a_process_that_ends_by_itself_fails_the_test_that_it_was_at(tmp_path: Path) -> None:
    code, output = said(run(tmp_path, test_dying=DYING, test_fine=FINE, test_other=FINE))
    assert code == 1 and "1 failed, 3 passed" in output
    assert "FAILED test_dying.py::test_dies" in output
    assert "ended with -9; the rest of its group was not run" in output


def test_after_as_many_failures_as_are_allowed_no_other_test_begins(tmp_path: Path) -> None:
    many = "".join(f"def test_{number}():\n    assert {number} < 0\n" for number in range(600))
    code, output = said(run(tmp_path, "-x", "--tb=no", test_one=many, test_other=many))
    assert code == 1 and "stopping after" in output
    assert len([name for name, _ in notes(tmp_path) if name.startswith("test_")]) < 1200


WAITING = """
import time

def test_{name}(noted):
    time.sleep(600)
"""


def test_ctrl_c_ends_all_and_takes_down_what_was_set_up(tmp_path: Path) -> None:
    files = {f"test_{name}": WAITING.format(name=name) for name in "ab"}
    process = run(tmp_path, **files)
    at_it = until(
        lambda: (
            (tmp_path / "notes").exists()
            and [pid for name, pid in notes(tmp_path) if name.startswith("test_")][1:]
            and notes(tmp_path)
        )
    )
    os.kill(process.pid, signal.SIGINT)
    children = {int(pid) for _, pid in at_it}

    def interrupted() -> bool:
        for pid in children:  # again, as a person does whose Ctrl-C met a moment at which Python drops it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        return process.poll() is not None

    until(interrupted, interval=1)
    code, output = said(process)
    assert code == 2 and "KeyboardInterrupt" in output
    assert [name for name, _ in notes(tmp_path)].count("down") == 2


def test_where_tests_cannot_be_read_none_is_run(tmp_path: Path) -> None:
    code, output = said(run(tmp_path, test_fine=FINE, test_wrong="import nothing_like_it\n", test_other=FINE))
    assert code == 2 and "1 error during collection" in output and not (tmp_path / "notes").exists()
