"""The work behind one prompt, and what of it a process does once."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.counted import counted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "runs", "judged"), [("demo", 1, 1), ("experiment", 3, 3), ("audit", 4, 4)])
def test_work_behind_a_prompt_is_bounded(kind: str, runs: int, judged: int) -> None:
    calls, files = counted(kind)
    by_function: dict[str, Counter[str]] = {}
    for (process, function), number in calls.items():
        by_function.setdefault(function, Counter())[process] += number
    # the command reads each history once; the watch over an experiment has read it while it grew
    lines = max(by_function["parse_line"].values())
    assert (
        8 * runs < lines < (30 if kind != "experiment" else 50) * runs
        and len(by_function["parse_line"]) == 1 + runs
    )
    assert by_function["judge_trace"].total() <= judged
    assert max(by_function["Topology.load"].values()) <= 2
    assert by_function["load_set"].total() <= 6 * runs
    assert "wirefault/judging/judge.py" in files
