"""The progress line of a run, which CI does not get."""

from __future__ import annotations

from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from tests.experiments.test_measures import measured
from tests.judging.test_summary import BAD, GOOD, NO_ORACLE
from wirefault.experiments.watch import ArmSoFar
from wirefault.report.progress import RunProgress, shows_progress, success_line


def so_far(*outcomes: str) -> ArmSoFar:
    return ArmSoFar("method", 20, {str(place): outcome for place, outcome in enumerate(outcomes)})


@pytest.mark.parametrize(
    ("terminal", "environ", "verbose", "output"),
    [
        (True, {}, False, True),
        (True, {"CI": "true"}, False, False),
        (True, {}, True, False),
        (False, {}, False, False),
    ],
)
def test_progress_only_on_terminals(
    terminal: bool, environ: dict[str, str], verbose: bool, output: bool
) -> None:
    console = Console(file=StringIO(), force_terminal=terminal)
    assert shows_progress(console, environ, verbose=verbose) is output


def test_success_is_the_rate_that_the_result_will_have() -> None:
    assert success_line(so_far()) == "success no data"
    assert (
        success_line(so_far("success", "crash", "invalid"))
        == "success 33.3 % to 66.7 % [1.7 %, 98.3 %], 1 invalid"
    )
    result = measured(GOOD, GOOD, BAD, NO_ORACLE)["success_rate"].text
    assert success_line(so_far("success", "success", "false_success", "unjudged")) == f"success {result}"


def test_line_shows_rate_success_and_findings() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    clock = count(0.0, 2.0)
    with RunProgress(console, clock=lambda: next(clock)) as progress:
        progress(so_far("success"))
        arm = so_far("success", "success", "success")
        arm.planned = 30
        arm.findings.append("1: POST /orders was sent again")
        progress(arm)
        progress._progress.refresh()
    output = screen.getvalue()
    assert "3/30" in output and "1.0/s" in output and "success 100 %" in output
    assert "1: POST /orders was sent again" in output and not arm.findings
