"""Seed by seed, a lab with the real Toxiproxy judges as one with the embedded server does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.lab import SAMPLES, LabRun, SharedLab

# tools are waited for longer than for the first two, and less than for the last
TOXICS = "timeout:200,latency:150,reset_peer:0,latency:3000"


def judged(lab_run: LabRun) -> list[object]:
    return [
        (one.prompt, one.outcome, one.world, one.claim, one.value, one.flags, one.attempts)
        for one in lab_run.summary.episodes
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_same_seed_has_same_outcomes(real_lab: SharedLab, shared: SharedLab, seed: int) -> None:
    chaos = {"seed": seed, "toxic_prob": 0.5, "error_prob": 0.2, "tool_limit": 2, "toxics": TOXICS}
    chaos |= {"tool_timeout": 2}
    with ThreadPoolExecutor(2) as side_by_side:  # they wait for the longest toxics
        lab_runs = side_by_side.map(lambda lab: lab.run(*SAMPLES[11:19], **chaos), (shared, real_lab))
        embedded, real = lab_runs
    assert judged(embedded) == judged(real)
    assert "invalid" not in real.outcomes
