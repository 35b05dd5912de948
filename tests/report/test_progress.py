"""What a person sees of a flight while it goes, and that CI sees nothing of it."""

from __future__ import annotations

from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from wirefault.experiments.watch import ArmSoFar
from wirefault.report.progress import RunProgress, shows_progress, success_line


def so_far(*outcomes: str) -> ArmSoFar:
    return ArmSoFar("method", 20, {str(place): outcome for place, outcome in enumerate(outcomes)})


@pytest.mark.parametrize(
    ("terminal", "environ", "verbose", "shown"),
    [
        (True, {}, False, True),
        (True, {"CI": "true"}, False, False),
        (True, {}, True, False),
        (False, {}, False, False),
    ],
)
def test_it_is_shown_to_who_looks(
    terminal: bool, environ: dict[str, str], verbose: bool, shown: bool
) -> None:
    console = Console(file=StringIO(), force_terminal=terminal)
    assert shows_progress(console, environ, verbose=verbose) is shown


def test_success_comes_with_its_interval_and_what_could_not_be_judged() -> None:
    assert success_line(so_far()) == "success: no data yet"
    assert success_line(so_far("success", "crash", "invalid")) == "success 50 % [9.45 %, 90.5 %], 1 invalid"


def test_the_line_shows_rate_success_and_findings() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    clock = count(0.0, 2.0)
    with RunProgress(console, clock=lambda: next(clock)) as progress:
        progress(so_far("success"))
        arm = so_far("success", "success", "success")
        arm.findings.append("1: POST /orders was sent again")
        progress(arm)
        progress._progress.refresh()
    shown = screen.getvalue()
    assert "3/20" in shown and "1.0/s" in shown and "success 100 %" in shown
    assert "1: POST /orders was sent again" in shown and not arm.findings
