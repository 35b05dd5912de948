"""The file that each Python process of a subject runs at its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirefault.core.lab_folder import LIBRARY
from wirefault.subjects.functions.connections import VARIABLE
from wirefault.subjects.taps.tap import LAUNCHERS_VARIABLE

pytestmark = pytest.mark.slow

STARTUP = LIBRARY / "subjects" / "functions" / "startup"
RUN_AS = """
import runpy, sys
sys.version_info = ({version}, 0, "final", 0)
runpy.run_path({file!r})
print("_wirefault_functions" in sys.modules, getattr(sys, "own", ""))
"""


@pytest.mark.parametrize(("version", "is_loaded"), [("3, 8", False), ("3, 9", True), ("3, 13", True)])
def test_older_python_starts_without_a_word(tmp_path: Path, version: str, is_loaded: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 'the own one runs, too'")
    code = RUN_AS.format(version=version, file=str(STARTUP / "sitecustomize.py"))
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), VARIABLE: "127.0.0.1:1 127.0.0.1:2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == (f"{is_loaded} the own one runs, too\n", "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("pyenv:launchers:others", "launchers:pyenv:others"), ("pyenv:others", "pyenv:others")],
    ids=["behind a shim", "a server behind the lab"],
)
def test_launchers_come_first_again(path: str, expected: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(STARTUP), LAUNCHERS_VARIABLE: "launchers", "PATH": path}
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ['PATH'])"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == f"{expected}\n"
