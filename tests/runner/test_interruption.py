"""An interruption whose exception gets lost, as in a destructor, still ends the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, RUN_PATIENCE_S

pytestmark = pytest.mark.slow

SWALLOWED = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
    signal.pause()
except KeyboardInterrupt:
    pass
"""
SUBJECT = """
from contextlib import contextmanager

@contextmanager
def swallowing(configuration):
{swallow}
    yield lambda prompt, context: None
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupt_during_subject_start_is_reraised(tmp_path: Path, name: str) -> None:
    swallow = SWALLOWED.format(name=name).replace("\n", "\n    ")
    (tmp_path / "mine.py").write_text(SUBJECT.format(swallow=swallow))
    (tmp_path / "prompts.json").write_text('[{"prompt": "Hello"}]')
    command = [sys.executable, "-m", "wirefault", "run", "--lab", "--subject", "mine:swallowing"]
    done = subprocess.run(
        [*command, "--prompts", "prompts.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert not (tmp_path / "logs" / "runs").exists()


DURING_AN_IMPORT = """
import sys
from wirefault.runner.interruption import interrupt_once
interrupt_once({})
try:
    import interrupted_module
    import time
    time.sleep(30)
except KeyboardInterrupt:
    print("whole" if getattr(sys.modules.get("interrupted_module"), "whole", False) else "in part")
"""
INTERRUPTED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.2)
whole = True
"""


def test_import_ends_before_the_interruption(tmp_path: Path) -> None:
    (tmp_path / "interrupted_module.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-c", DURING_AN_IMPORT],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=True,
    )
    assert done.stdout == "whole\n"
