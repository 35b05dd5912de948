"""Error rates of intervals and verdicts in simulated runs; `python -m bench.verdicts` makes more runs."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.coverage import SIZES, bootstrap_intervals, measure_coverage
from bench.verdicts import measure_verdicts, plugin_passes
from tests.support import ROOT
from wirefault.stats.bootstrap import RatioOfSums

RUNS = 200
Tables = dict[str, list[dict[str, Any]]]
PAGE = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
EXACT = ("exact", "e-process", "repeated tries")


@pytest.fixture(scope="module")
def coverage() -> Tables:
    return measure_coverage(RUNS, (20, 60))


@pytest.fixture(scope="module")
def verdicts() -> Tables:
    return measure_verdicts(RUNS, SIZES)


def at_most(bound: float) -> float:
    """The bound with four standard errors of the simulation, since many figures are compared."""
    return bound + 4 * math.sqrt(bound * (1 - bound) / RUNS)


@pytest.mark.slow
def test_exact_ends_miss_in_at_most_5_percent_and_others_in_1_5_times_as_many(coverage: Tables) -> None:
    for title, rows in coverage.items():
        assert f"### {title}\n" in PAGE
        exact = any(word in title for word in EXACT)
        for row in rows:
            size = next(
                (row[name] for name in ("n", "pairs", "n each", "prompts", "failures") if name in row), 60
            )
            if exact or size >= 60:
                bound = at_most(0.05 if exact else 0.075)
                assert max(row["low end above truth"], row["high end below truth"]) <= bound, (title, row)


def wrong_verdicts(tables: Tables) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Each row with the verdict that is wrong in it."""
    for title, rows in tables.items():
        for row in rows:
            if "true rate" in row and "held" in row:
                yield title, row, "held" if row["true rate"] < 0.9 else "deviated"
            if "true loss" in row:
                yield title, row, "held" if row["true loss"] > 0.05 else "deviated"
            if "discordant" in row:
                yield title, row, "deviated"
            if "mean rate" in row:
                yield title, row, "deviated"
            if "arms" in row:
                yield title, row, "any deviated, shared error"


def test_wrong_verdicts_are_at_most_5_percent(verdicts: Tables) -> None:
    wrong = list(wrong_verdicts(verdicts))
    assert len({title for title, _, _ in wrong}) == 9
    for title, row, verdict in wrong:
        assert f"### {title}\n" in PAGE
        assert row[verdict] <= at_most(0.075 if "like_these" in title else 0.05), (title, row)


def test_good_agent_keeps_its_steady_state(verdicts: Tables) -> None:
    for row in verdicts["steady state of a good agent"]:
        assert row["worse afterwards"] <= at_most(0.01), row
        if row["n"] >= 20 and row["true rate"] >= 0.9:
            assert row["success_share >= 50 % fails"] == 0, row


def test_plugin_passes_85_percent_against_90_in_40_percent_at_20_runs(verdicts: Tables) -> None:
    [row] = [
        each
        for each in verdicts["pass or fail of a plug-in that stops early"]
        if (each["runs"], each["true rate"]) == (20, 0.85)
    ]
    assert row["plug-in passes"] == pytest.approx(0.405, abs=4 * math.sqrt(0.24 / RUNS))
    assert row["held, fixed n"] == 0


def test_bootstrap_of_many_runs_is_that_of_the_package() -> None:
    draws = np.random.default_rng(3)
    above, below = draws.exponential(1, (3, 25)), draws.integers(1, 4, (3, 25)).astype(float)
    expected = [RatioOfSums(*each).interval(0.05) for each in zip(above, below, strict=True)]
    assert bootstrap_intervals(above, below) == pytest.approx(np.array(expected))


def test_plugins_released_code_gives_the_simulated_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs ``pip install --no-deps --target .frameworks/agentcheck agentcheck-pytest-plugin==0.1.0``."""
    path = ROOT / ".frameworks/agentcheck/pytest_agentcheck/stats.py"
    if not path.is_file():
        pytest.skip("agentcheck-pytest-plugin is not in .frameworks/agentcheck")
    spec = importlib.util.spec_from_file_location("agentcheck_stats", path)
    assert spec is not None and spec.loader is not None
    released = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, released)
    spec.loader.exec_module(released)
    outcomes = np.random.default_rng(4).random((200, 60)) < 0.88
    for n in (20, 60):
        passed, taken = plugin_passes(outcomes[:, :n])
        for row, is_pass, runs in zip(outcomes, passed, taken, strict=True):
            assert _as_released(released, row[:n].tolist()) == (is_pass, runs)


def _as_released(released: Any, outcomes: list[bool]) -> tuple[bool, int]:
    """The loop of its ``pytest_pyfunc_call``."""
    for done in range(1, len(outcomes) + 1):
        decision = released.sequential_verdict(sum(outcomes[:done]), done, len(outcomes), 0.9)
        if decision.should_stop:
            break
    inconclusive = decision.verdict == "INCONCLUSIVE" and sum(outcomes[:done]) / done >= 0.9
    return decision.verdict == "PASS" or inconclusive, done
