"""The plug-in costs nothing in suites that do not use it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.pytest_plugin.suites import COMMAND, write_suite

pytestmark = pytest.mark.slow

TESTS = """
import sys

def test_modules():
    print("modules:", sorted(m for m in sys.modules if m.partition(".")[0] == "wirefault"))
    print("others:", sorted(m for m in ("pydantic", "requests", "click", "rich", "yaml") if m in sys.modules))
"""


def test_pytest_without_marked_tests_imports_the_thin_module_only(tmp_path: Path) -> None:
    write_suite(tmp_path, TESTS, conftest="")
    done = subprocess.run(
        [*COMMAND, "-s"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "modules: ['wirefault', 'wirefault.pytest_plugin']" in done.stdout, done.stdout + done.stderr
    assert "others: []" in done.stdout
    assert "wirefault, seed" not in done.stdout
    assert not (tmp_path / ".wirefault").exists()


def test_thin_module_imports_nothing_slow() -> None:
    program = (
        "import pytest, _pytest.unittest, sys; old = set(sys.modules); import wirefault.pytest_plugin;"
        " print(*sorted(set(sys.modules) - old))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    new = {name.partition(".")[0] for name in done.stdout.split()}
    assert new - set(sys.stdlib_module_names) == {"wirefault"}


def test_package_registers_the_plug_in() -> None:
    [plugin] = [each for each in entry_points(group="pytest11") if each.value == "wirefault.pytest_plugin"]
    assert plugin.name == "wirefault"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--wirefault-seed=x", "--wirefault-seed: must be a whole number from 0 to 2147483647, not 'x'"),
        ("--wirefault-repeats=0", "--wirefault-repeats: must be a whole number from 1 to 10000, not '0'"),
    ],
)
def test_bad_option_ends_with_a_sentence(tmp_path: Path, option: str, message: str) -> None:
    write_suite(tmp_path, TESTS, conftest="")
    done = subprocess.run(
        [*COMMAND, option], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 4
    assert f"ERROR: {message}" in done.stderr
