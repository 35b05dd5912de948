"""The work behind one prompt, and what of it a process does once."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.counted import counted

pytestmark = pytest.mark.slow


def test_work_behind_a_prompt_is_bounded() -> None:
    calls, files = counted()
    by_function: dict[str, Counter[str]] = {}
    for (process, function), number in calls.items():
        by_function.setdefault(function, Counter())[process] += number
    events = max(by_function["parse_line"].values())  # the command reads the whole history once
    assert 10 < events < 30 and len(by_function["parse_line"]) == 2
    assert by_function["judge_trace"].total() == 1
    assert max(by_function["Topology.load"].values()) <= 2
    assert by_function["load_set"].total() <= 6
    assert "wirefault/judging/judge.py" in files
