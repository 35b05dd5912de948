"""``wirefault lab insurance``: a claim with and without mitigations, and its cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wirefault
from tests.support import ROOT
from wirefault.conversation.insurance import (
    COSTS,
    WITH,
    WITHOUT,
    Answered,
    ClaimTurn,
    Insurance,
    Side,
    answered,
    load_claim,
    load_costs,
)
from wirefault.core.errors import InputError

# G5 of the feature list
FAILS = {
    **{2: "service_unavailable", 4: "infinite_loop", 5: "incorrect_reasoning"},
    **{7: "service_unavailable", 8: "hallucination", 10: "service_unavailable"},
}
CLAIM = load_claim()
MINE = """\
currency: EUR
items:
  - {for: customer, item: waiting, cost: 60, per: minute}
  - {for: customer, item: no car, cost: 480, per: {not_done: rental}}
  - {for: insurer, item: clerk, cost: 250, per: handoff}
  - {for: insurer, item: correction, cost: 1000, per: wrong_answer}
  - {for: insurer, item: model, cost: 1, per: model_call}
  - {for: insurer, item: tools, cost: 0.5, per: tool_call}
"""


def test_claim_fails_in_the_turns_that_the_source_names() -> None:
    modes = {number: turn.mode for number, turn in enumerate(CLAIM.turns, start=1)}
    assert len(modes) == 10 and {number: mode for number, mode in modes.items() if mode} == FAILS


@pytest.mark.parametrize(
    ("status", "response", "outcome"),
    [
        ("success", "It is 8.4 celsius.", "right"),
        ("success", "It is 9.4 celsius.", "wrong"),
        ("failure", "It is not 8.4 celsius.", "wrong"),
        ("error", "", "no answer"),
        ("timeout", "", "no answer"),
    ],
)
def test_outcome_of_a_turn(status: str, response: str, outcome: str) -> None:
    requests = [{"kind": "request", "link": link} for link in ("model", "weather", "model")]
    recovery = {"strategy": "retry", "success": True}
    reply = {
        **{"status": status, "response": response, "natural_response": None, "processing_time_ms": 1500.0},
        "metadata": {"time_line": [*requests, {"kind": "recovery"}], "recoveries": [recovery, recovery]},
    }
    turn = answered(ClaimTurn(name="weather", say="?", expect="8.4"), reply)
    assert (turn.outcome, turn.recovered_by) == (outcome, "retry")
    assert (turn.model_calls, turn.tool_calls, turn.seconds) == (2, 1, 1.5)


def test_costs_are_counted_in_what_happened(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    costs = load_costs(tmp_path / "mine.yaml", CLAIM)

    def turn(name: str, outcome: Any) -> Answered:
        return Answered(name, "", outcome, "", None, "", 2, 1, 30.0)

    side = Side(
        WITHOUT, "run", "none", [turn("rental", "no answer"), turn("total", "wrong"), turn("claim", "right")]
    )
    assert side.total(costs, "customer") == 1.5 * 60 + 480
    assert side.total(costs, "insurer") == 250 + 1000 + 6 + 1.5
    assert Insurance(1, costs, [side]).payers == ["customer", "insurer"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("items: [{for: a, item: b, cost: 1, per: hour}]", "items.0.per"),
        ("items: [{for: a, item: b, cost: -1, per: minute}]", "items.0.cost"),
        ("items: [{for: a, item: b, cost: 1, per: {not_done: rentl}}]", "did you mean 'rental'"),
        ("items: []", "items"),
        ("items: [", ":1: not YAML"),
        ("- 1", "the file"),
    ],
)
def test_unusable_costs_are_refused_in_one_line(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_costs(tmp_path / "c.yaml", CLAIM)
    assert str(tmp_path / "c.yaml") in str(caught.value) and problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_costs_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.yaml: No such file"):
        load_costs(tmp_path / "none.yaml", CLAIM)


@pytest.mark.slow
def test_both_sides_fail_in_the_same_turns_and_mitigations_recover_three(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    patience = {"SEED": "1", "TOOL_TIMEOUT": "30", "ATTEMPT_TIME": "120", "ARM_TIMEOUT": "60"}
    words = ("lab", "insurance", "--json", "--costs", "mine.yaml")
    done = wirefault(tmp_path, os.environ | patience, *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    without, with_ = (result["sides"][name] for name in (WITHOUT, WITH))
    outcomes = {
        name: {number: turn["outcome"] for number, turn in enumerate(side["turns"], start=1)}
        for name, side in result["sides"].items()
    }
    assert {number: outcome for number, outcome in outcomes[WITHOUT].items() if outcome != "right"} == {
        **dict.fromkeys((2, 4, 7, 10), "no answer"),
        **dict.fromkeys((5, 8), "wrong"),
    }
    assert [outcomes[WITH][number] for number in (2, 7, 10)] == ["right"] * 3
    assert [turn["mode"] for turn in without["turns"]] == [turn["mode"] for turn in with_["turns"]]
    assert without["totals"]["insurer"] > with_["totals"]["insurer"]
    assert sum(item["amount"] for item in with_["costs"] if item["for"] == "insurer") == pytest.approx(
        with_["totals"]["insurer"]
    )
    assert without["counts"]["tool_call"] > 0 and result["currency"] == "EUR"


def test_shipped_costs_name_turns_and_events_of_the_claim() -> None:
    costs = load_costs(COSTS, CLAIM)
    assert {item.payer for item in costs.items} == {"customer", "company"}
    assert COSTS.read_text(encoding="utf-8") in (ROOT / "docs/conversation-lab.md").read_text(
        encoding="utf-8"
    )
