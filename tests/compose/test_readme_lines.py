"""The README's other lines in order. The last one takes the lab down; its records outlive it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.compose.conftest import readme_lines, start_in_foreground
from tests.compose.recorded import recorded
from tests.compose.rig import Lab

pytestmark = pytest.mark.compose


@pytest.mark.parametrize("line", readme_lines()[1:])
def test_remaining_readme_lines_work(lab: Lab, line: str, tmp_path: Path) -> None:
    if line.endswith(" up"):
        assert start_in_foreground(lab, line, tmp_path / "output").code == 0
    else:
        done = lab.play(line)
        assert done.returncode == 0, done.stdout + done.stderr


def test_up_after_down_records_sample_run_time(lab: Lab, tmp_path: Path, record_property) -> None:
    before = recorded(lab)
    lab.prompts()
    lab.compose("down --timeout 3")
    start = time.time()
    line = "TOXIC_PROB=0.3 ERROR_PROB=0.1 docker compose up"
    assert start_in_foreground(lab, line, tmp_path / "output").code == 0
    end = time.time()
    [begun] = lab.rows("SELECT MIN(requested_at) FROM attempts WHERE requested_at > ?", start)
    record_property("from up to the first prompt, s", round(begun[0] - start, 1))
    record_property("from up to the end of the sample run, s", round(end - start, 1))
    assert lab.toxics() == {}
    assert all(recorded(lab)[name] >= before[name] for name in before)
