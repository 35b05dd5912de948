"""The work behind one prompt, and what of it a process does once."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.counted import counted, most

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("kind", "runs", "sets"), [("demo", 1, 3), ("experiment", 3, 4), ("audit", 4, 6)])
def test_work_behind_a_prompt_is_bounded(kind: str, runs: int, sets: int) -> None:
    calls, files = counted(kind)
    total: Counter[str] = Counter()
    for call, number in calls.items():
        total[call.function] += number
    assert most(calls, "judge_trace") == 1 and total["judge_trace"] <= runs
    assert most(calls, "parse_line", of_one=True) == 1
    assert 8 * runs < most(calls, "parse_line") < 30 * runs
    readers = {call.process for call in calls if call.function == "parse_line"}
    assert len(readers) == 1 + runs  # each run reads what other processes record, the command reads all
    # of the lab, the command, the gateways and the processes of runs with faults
    assert most(calls, "build_set") == 1 and total["build_set"] <= sets
    # an ingress reads the links again once Toxiproxy has its proxies
    assert most(calls, "Topology.load") <= (2 if kind == "audit" else 1)
    assert "wirefault/judging/judge.py" in files
