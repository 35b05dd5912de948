"""Every figure of a summary equals the one that numpy and scipy compute from the history, for each preset."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console

from tests.e2e.lab import SAMPLES, SharedLab
from tests.e2e.recompute import Recomputed
from tests.support import share
from wirefault.faults.sets.presets import preset, preset_names
from wirefault.judging.summary import Summary
from wirefault.report.summary import print_summary

CHAOS: dict[str, Any] = {
    "toxic_prob": 0.2,
    "error_prob": 0.1,
    "toxics": "timeout:200,latency:100",
    "tool_timeout": 1,
    "model_timeout": 3,
    "tool_limit": 2,
    "prompt_limit": 2,
    "prices": '{"scripted-diligent": {"input": 0.15, "output": 0.6}}',
}
STAGES = ("eligible", "drawn", "armed", "met", "injected", "observed", "delivered", "why_not")


# each tool call meets it without effect: an attempt with one call has no earlier answer
MET_IN_VAIN = '{"faults": [{"fault": "stale", "links": "tools"}]}'


SETS = [name for at, name in enumerate(preset_names()) if share(at)]


@pytest.mark.parametrize("name", [*SETS, "met in vain"])
def test_summary_equals_recomputed_history(shared: SharedLab, name: str) -> None:
    faults = preset(name).dump() if name in preset_names() else MET_IN_VAIN
    lab_run = shared.run(*SAMPLES[19:24], seed=11, faults=faults, stream=name == "met in vain", **CHAOS)
    summary = lab_run.summary.as_json()
    again = Recomputed(shared.configuration.logs / "runs" / lab_run.record.run_id)

    assert summary["outcomes"] == again.outcomes()
    for rate, field in (("success", "outcome"), ("first_attempt", "first_attempt_outcome")):
        assert {**summary[rate], "population": ""} == close(again.rate(field)) | {"population": ""}
    assert summary["exposed"] == close(again.share(exposed=True))
    assert summary["unexposed"] == close(again.share(exposed=False))
    assert summary["latency_ms"] == again.latencies()
    assert summary["arming_ms"] == again.arming()
    usage = close(again.usage() | {"unpriced": None, "first_token_ms": None})
    assert {**summary["model_usage"], "unpriced": None, "first_token_ms": None} == usage
    assert summary["model_usage"]["first_token_ms"] == again.usage()["first_token_ms"]
    assert summary["model_usage"]["unpriced"] == again.usage()["unpriced"] == []
    assert summary["model_usage"]["cost_usd"] is not None
    assert summary["refused_calls"] == again.refused()
    assert summary["duration_s"] == again.finished["t"] - again.started["t"]
    assert summary["toxics_left"] == again.finished["toxics_left"]
    rows = {
        (row["configuration"], row["entry"], row["source"], "" if row["entry"] else row["kind"]): row
        for row in summary["faults"]
    }
    assert {key: {stage: row[stage] for stage in STAGES} for key, row in rows.items()} == again.faults()

    unexplained = [
        (episode["episode"], *(tried[key] for key in ("attempt", "link", "call", "try_", "error")))
        for episode in summary["episodes"]
        for tried in episode["unexplained"]
    ]
    assert summary["unexplained"] == len(unexplained)
    assert set(unexplained) <= again.failed_tries()
    assert figures_in(summary["remarks"]) == {text: n for text, n in again.remarks(unexplained).items() if n}
    assert again.headline() in printed(lab_run.summary)


def close(figures: dict[str, Any]) -> dict[str, Any]:
    """Equal but for rounding; None is equal to None alone."""
    return {key: value if value is None else pytest.approx(value, rel=1e-9) for key, value in figures.items()}


def figures_in(remarks: Iterable[str]) -> dict[str, int]:
    """Counts in a remark, by their words."""
    matches = [re.fullmatch(r"(\d+) (?:of \d+ )?(.*?)(?:: .*)?", remark) for remark in remarks]
    return {match[2]: int(match[1]) for match in matches if match}


def printed(summary: Summary) -> str:
    out = io.StringIO()
    print_summary(Console(file=out, width=100), summary)
    return out.getvalue()
