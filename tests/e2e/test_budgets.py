"""Budgets of an experiment over the whole wire: lanes share a run's, and an episode ends by its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_experiments import run
from wirefault.history.events import AttemptEnded, BudgetSpent, Event, Exchange
from wirefault.history.reader import read_history

pytestmark = pytest.mark.slow

EXPERIMENT = """
title: What is used up is refused
only: ["1", "2", "3", "4"]
seed: 1
variants:
  end: {budgets: {episode: {tokens: 1000}, mode: end}, hypothesis: [runaway == 4]}
  shared: {budgets: {run: {calls: 5}}, hypothesis: [budgets_spent > 0 and no invalid]}
  wide: {budgets: {episode: {tokens: 1000000}}, hypothesis: [no budgets_spent]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("budgets")


@pytest.fixture(scope="module")
def verdict(folder: Path) -> dict[str, Any]:
    (folder / "budgets.yaml").write_text(EXPERIMENT, encoding="utf-8")
    done = run(folder, "budgets.yaml", "--json", "--workers", "2")
    assert done.returncode == 2, done.stderr  # the widest budget refused nothing
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def events_of(verdict: dict[str, Any], folder: Path, name: str) -> list[Event]:
    [run_ids] = [arm["run_ids"] for arm in verdict["arms"] if arm["arm"] == name]
    assert len(run_ids) == 2
    return [
        event for run_id in run_ids for event in read_history(folder / ".wirefault" / "logs", run_id).events()
    ]


def test_each_arm_verdict(verdict: dict[str, Any]) -> None:
    verdicts = {(check["arm"], check["statement"]): check["verdict"] for check in verdict["checks"]}
    struck = "faults_delivered + budget_strikes > 0"
    assert verdicts == {
        ("control", "success_share >= 50 %"): "held",
        ("end", struck): "held",
        ("end", "runaway == 4"): "held",
        ("shared", struck): "held",
        ("shared", "budgets_spent > 0"): "held",
        ("shared", "no invalid"): "held",
        ("wide", "faults_delivered > 0"): "unknown",
        ("control-after", "success_share >= 50 %"): "held",
        ("control-after", "not worse than before the faults"): "held",
    }


def test_lanes_share_run_budget(verdict: dict[str, Any], folder: Path) -> None:
    requests = [e for e in events_of(verdict, folder, "shared") if isinstance(e, Exchange) and e.of_model]
    let_through = [exchange for exchange in requests if exchange.forwarded]
    assert len(let_through) == 5 and {exchange.status for exchange in let_through} == {200}
    refused = [exchange for exchange in requests if not exchange.forwarded]
    assert {(exchange.status, exchange.faults[0].id) for exchange in refused} == {(429, "budget:run.calls")}


def test_budget_ends_episode_with_reason(verdict: dict[str, Any], folder: Path) -> None:
    events = events_of(verdict, folder, "end")
    ends = [event for event in events if isinstance(event, AttemptEnded)]
    assert [(end.ended_by, end.error_type) for end in ends] == [("limit", "BudgetSpent")] * 4
    assert all(end.error and "episode.tokens is used up" in end.error for end in ends)
    assert sum(isinstance(event, BudgetSpent) and event.ends for event in events) == 4
