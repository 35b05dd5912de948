"""The printed effect of each fault."""

from __future__ import annotations

import io

from rich.console import Console

from wirefault.experiments.effects import FaultEffect
from wirefault.report.experiment import print_effects
from wirefault.stats.rates import paired_difference


def drawn(*effects: FaultEffect) -> str:
    console = Console(file=io.StringIO(), width=110)
    print_effects(console, effects)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_each_fault_has_row_with_its_interval() -> None:
    success = paired_difference(4, 4, 0, 0)
    output = drawn(FaultEffect("method", "lost", 9, 9, 7, 1, 8, 8, 4, 9, success))
    assert "method  lost         9      9      7   8 of 8   4 of 9  -50 points [-" in output
    assert "n = 8, 1 without an outcome" in output


def test_unknown_effect_and_no_faults() -> None:
    output = drawn(FaultEffect("method", "lost", 2, 2, 2, 2, 0, 0, 0, 2, None))
    assert "0 of 0   0 of 2  unknown, 2 without an outcome" in output
    assert drawn() == ""
