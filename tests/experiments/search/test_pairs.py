"""All pairs of faults in few rows: the array covers them, and only delivered pairs are counted."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experiments.search.test_run_search import FAULTS, shop, source
from tests.report.page.test_figures import check, reported
from wirefault.cli.main import main
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.search.options import plan_pairs
from wirefault.experiments.search.pairs import (
    Factor,
    by_link,
    covering_rows,
    pairs_result,
)
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.judged_events import EpisodeJudged, FaultRecord, Outcome

__all__ = ["shop"]
ABC = [Factor("a"), Factor("b", "ms", (1.0, 2.0)), Factor("c")]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=8))
def test_each_pair_of_levels_is_in_a_row(counts: list[int]) -> None:
    factors = [Factor(f"f{place}", "ms", tuple(range(count))) for place, count in enumerate(counts)]
    rows = covering_rows(factors)
    for one, other in combinations(factors, 2):
        for first, second in product(one.doses or (None,), other.doses or (None,)):
            assert any(row.get(one.id, "off") == first and row.get(other.id, "off") == second for row in rows)
            assert any(row.get(one.id, "off") == first and other.id not in row for row in rows)
    assert all(rows) and rows == covering_rows(factors)


def test_rows_are_far_fewer_than_pairs() -> None:
    assert len(covering_rows([Factor(f"f{place}") for place in range(20)])) <= 14  # of 190 pairs, 2^20 sets


def episode(outcome: Outcome, *delivered: str) -> EpisodeFacts:
    faults = tuple(
        FaultRecord(0, each, "fault", "http_error", "shop", 1, "observed", True, "caller")
        for each in delivered
    )
    return EpisodeFacts(EpisodeJudged(0.0, "tea", outcome, faults=faults))


def test_only_delivered_pairs_count() -> None:
    rows: dict[str, dict[str, float | None]] = {
        "row-1": {"a": None, "b": 1.0, "c": None},
        "row-2": {"a": None, "b": 2.0},
    }
    episodes = {
        "row-1": [episode("crash", "a", "b"), episode("unjudged", "a")],
        "row-2": [episode("success", "b"), episode("success")],
    }
    result = pairs_result(ABC, rows, episodes, (), 2)
    counts = {(pair.first, pair.second): (pair.delivered, pair.judged, pair.failed) for pair in result.pairs}
    assert (result.state, result.delivered, len(counts)) == ("some delivered", 1, 5)
    assert counts["a", "b ms 1"] == (1, 1, 1) and counts["a", "b ms 2"] == (0, 0, 0)
    assert [(row.episodes, row.judged, row.failed) for row in result.rows] == [(2, 1, 1), (2, 2, 0)]
    assert pairs_result(ABC, rows, {}, (), 2).state == "incomplete"
    nothing = {name: [episode("crash")] * 2 for name in rows}
    assert pairs_result(ABC, rows, nothing, (), 2).state == "none delivered"


def test_fault_on_several_links_is_one_for_each(tmp_path: Path) -> None:
    faults = [{"fault": "delay", "id": "slow", "links": ["shop", "bank"], "with": {"ms": 1}}]
    faults.append({**faults[0], "id": "both", "together": True})
    of = source(tmp_path, faults=faults)
    experiment = json.loads(of.file.read_text(encoding="utf-8"))
    experiment["wiring"]["links"]["bank"] = {"upstream": "http://127.0.0.1:9", "env": "BANK_URL"}
    of.file.write_text(json.dumps(experiment), encoding="utf-8")
    split, ids = by_link(of.plan()[1].settings)
    assert ids == {"slow": ("slow@shop", "slow@bank"), "both": ("both",)}
    assert [entry.links for entry in read_canonical(split.faults).faults][:2] == [("shop",), ("bank",)]
    plan = plan_pairs(of, {"slow.ms": (1, 5)}, 1)
    assert [each["id"] for each in plan.search["terms"]["factors"]] == ["slow@shop", "slow@bank", "both"]


def test_rows_are_written_as_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = "search pairs exp.json --dose slow.ms=1,30 --write rows.yaml --json"
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    plan = CliRunner().invoke(main, ["plan", "rows.yaml"])
    assert plan.exit_code == 0 and f"row-{len(rows)}" in plan.output, plan.output
    assert {row.get("slow") for row in rows} == {None, 1, 30}


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(tmp_path)
    monkeypatch.chdir(tmp_path)
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "allpairspy":
            raise ModuleNotFoundError(name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    result = CliRunner().invoke(main, ["search", "pairs", "exp.json"])
    [line] = result.stderr.splitlines()
    assert line == "Error: search pairs needs allpairspy: pip install 'wirefault[search]'"


def test_one_fault_has_no_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(tmp_path, faults=FAULTS[:1])
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["search", "pairs", "exp.json"])
    assert result.exit_code == 64 and "a pair needs two" in result.stderr


@pytest.mark.slow
def test_pairs_in_lab_are_counted_by_histories(
    shop: Iterator[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # b is only read after a failed, so that its pair with the delay needs a's fault, too
    source(tmp_path, str(shop))
    monkeypatch.chdir(tmp_path)
    words = ["search", "pairs", "exp.json", "--toxiproxy=embedded", f"--out={tmp_path}", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)["answer"]
    pairs = {(pair["first"], pair["second"]): pair for pair in answer["pairs"]}
    both = pairs["a-down", "b-down"]
    assert both["delivered"] == both["failed"] >= 1
    delivered = sum(pair["delivered"] > 0 for pair in pairs.values())
    assert (answer["planned"], answer["delivered"]) == (3, delivered)
    assert all(
        row["failed"] == ("a-down" in row["faults"] and "b-down" in row["faults"]) for row in answer["rows"]
    )
    page, document = reported(tmp_path, "report", "latest")  # again, from the histories
    check(page.replace(str(tmp_path), "folder"), document, 20)
    assert "Pairs of faults" in page and document["answer"] == answer
