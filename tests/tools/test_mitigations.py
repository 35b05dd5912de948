"""docs/mitigations.md is the page of the last measurement, and shows nothing that was not measured."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.measured import read_cells
from bench.mitigations import __main__, clients, measuring, page
from bench.mitigations.__main__ import MEASURED, page_text
from bench.mitigations.cells import FAMILIES, Family
from tests.support import ROOT
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.facts import EpisodeFacts
from wirefault.history.judged_events import EpisodeJudged, Outcome


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
                success = arm["success_rate"]
                assert success["n"] >= 5 and success["low"] is not None and success["high"] is not None


def test_cell_without_measurement_says_so() -> None:
    family = replace(FAMILIES[0], arms=["unheard of"])
    [row] = [line for line in page._family(family, {}) if "unheard of" in line][:1]
    assert row.count("not run") == len(family.trials)
    assert Path(clients.__file__).parent == ROOT / "bench" / "mitigations"


def outcomes(outcome: Outcome, n: int) -> ArmFacts:
    return ArmFacts(n, [EpisodeFacts(EpisodeJudged(0.0, f"order.r{number}", outcome)) for number in range(n)])


RESTATE = ("durable-server", "Restate", "killed after the reply")
NEVER_RETRIES = ("sdk-openai", "openai, max_retries 0", "429, 3 s")
CHECKS: list[tuple[tuple[str, str, str], Outcome, int]] = [
    (RESTATE, "success", 0),
    (RESTATE, "duplicate", 1),
    (NEVER_RETRIES, "crash", 0),
    (NEVER_RETRIES, "false_success", 1),  # as seldom a success as on the page
]


@pytest.mark.parametrize(("cell", "outcome", "code"), CHECKS)
def test_check_compares_each_outcome_with_its_interval(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cell: tuple[str, str, str],
    outcome: Outcome,
    code: int,
) -> None:
    family, arm, trial = cell
    facts = {arm: {trial: outcomes(outcome, 5)}}
    monkeypatch.setattr(__main__, "_measured_family", lambda *_: facts)
    words = ["mitigations", "--check", "--family", family, "--arm", arm, "--trial", trial]
    monkeypatch.setattr(sys, "argv", words)
    assert __main__.main() == code
    counts = f"{outcome} 5, {'outside' if code else 'within'}"
    printed = capsys.readouterr().out
    assert f"{arm}, {trial}: {counts}" in printed and f"{1 - code} of 1 cells" in printed


def test_arm_that_fails_without_faults_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing = SimpleNamespace(run=lambda trial, n: outcomes("crash", n))
    monkeypatch.setattr(measuring, "arm_lab", lambda *_: nullcontext(failing))
    monkeypatch.setattr(measuring, "prepare", lambda _: tmp_path)
    with pytest.raises(RuntimeError, match="must succeed without faults"):
        measuring.measure_arm("any", FAMILIES[0], FAMILIES[0].trials, tmp_path / "arm")
