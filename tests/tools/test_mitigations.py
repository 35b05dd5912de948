"""docs/mitigations.md is the page of the last measurement, and shows nothing that was not measured."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.measured import read_cells
from bench.mitigations import __main__, clients, measuring, page
from bench.mitigations.__main__ import MEASURED, page_text
from bench.mitigations.cells import FAMILIES, Family
from tests.support import ROOT
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.facts import EpisodeFacts
from wirefault.judging.oracle.outcome import Outcome


def test_page_is_current() -> None:
    text = (ROOT / "docs" / "mitigations.md").read_text(encoding="utf-8")
    assert text == page_text(), "run: python -m bench.mitigations --page"


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if not each.recovery], ids=lambda family: family.name
)
def test_every_arm_has_a_client(family: Family) -> None:
    text = measuring.DURABLE.read_text(encoding="utf-8")
    known = set(clients.ARMS)
    assert all(arm in known or (family.is_killed and arm.split(" ")[0] in text) for arm in family.arms)


def test_every_measured_cell_has_n_and_interval() -> None:
    for of_family in read_cells(MEASURED).values():
        for cell in of_family.values():
            for arm in cell["table"]["arms"]:
                success = arm["success"]
                assert success["n"] >= 5 and success["low"] is not None and success["high"] is not None


def test_cell_without_measurement_says_so() -> None:
    family = replace(FAMILIES[0], arms=["unheard of"])
    [row] = [line for line in page._family(family, {}) if "unheard of" in line][:1]
    assert row.count("not run") == len(family.trials)
    assert Path(clients.__file__).parent == ROOT / "bench" / "mitigations"


@pytest.mark.parametrize(("outcome", "code"), [("success", 0), ("duplicate", 1)])
def test_check_compares_each_cell_with_its_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: Outcome, code: int
) -> None:
    arm, trial = "Restate", "killed after the reply"
    facts = ArmFacts(5, [EpisodeFacts(f"order.r{number}", outcome) for number in range(5)])
    monkeypatch.setattr(__main__, "_measured_family", lambda *_: {arm: {trial: facts}})
    words = ["mitigations", "--check", "--family", "durable-server", "--arm", arm, "--trial", trial]
    monkeypatch.setattr(sys, "argv", words)
    assert __main__.main() == code
    counts = "5 of 5, within" if code == 0 else "0 of 5, outside"
    printed = capsys.readouterr().out
    assert f"{arm}, {trial}: {counts}" in printed and f"{1 - code} of 1 cells" in printed
