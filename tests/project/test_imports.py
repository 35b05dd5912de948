"""Import rules that import-linter (pyproject.toml, run by ``make lint``) does not know."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.support import ROOT


def test_library_modules_are_inside_rooms():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [rooms] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    loose = {path.name for path in (ROOT / "wirefault").glob("*.py")}
    folders = {path.parent.name for path in (ROOT / "wirefault").glob("*/__init__.py")}
    assert loose <= {"__init__.py", "__main__.py", "_version.py"}
    assert folders == set(rooms)


@pytest.mark.slow
def test_settings_import_no_fault_catalogue():
    code = "import sys, wirefault.settings.configuration; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert [name for name in out.stdout.split() if name.startswith("wirefault.faults.catalogue")] == []


@pytest.mark.slow
def test_benchmarks_can_be_imported():
    done = subprocess.run(
        [sys.executable, "-c", "import bench.__main__"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr == ""
