"""The section ``wirefault`` at the end of pytest's output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from wirefault.pytest_plugin.verdict import without_repetition

_QUIET = ("passed", "not drawn", "paid")


def write_section(reporter: pytest.TerminalReporter, reports: Sequence[pytest.TestReport]) -> None:
    """Write a paragraph for each test that did not hold, and the counts."""
    tests = _by_test(reports)
    reporter.section(f"wirefault, seed {next(iter(tests.values()))['wirefault_seed']}")
    for nodeid, test in tests.items():
        if test["wirefault_verdict"] not in _QUIET:
            reporter.write_line(f"{test['wirefault_verdict']}: {nodeid}", red=True)
            for line in _lines(test):
                reporter.write_line(f"    {line}")
    for nodeid in never_drawn(reports):
        reporter.write_line(f"unknown: {nodeid}", red=True)
        reporter.write_line("    no fault was drawn in any repetition: use more repeats, or another seed")
    counts = Counter(str(test["wirefault_verdict"]) for test in tests.values())
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    reporter.write_line(f"{len(tests)} episode{'s' if len(tests) > 1 else ''}: {counted}")


def never_drawn(reports: Sequence[pytest.TestReport]) -> list[str]:
    """The tests for which chance drew no fault in any repetition, so that they show nothing."""
    kinds: dict[str, set[str]] = {}
    for nodeid, test in _by_test(reports).items():
        kinds.setdefault(without_repetition(nodeid)[0], set()).add(str(test["wirefault_verdict"]))
    return [nodeid for nodeid, of_test in kinds.items() if of_test == {"not drawn"}]


def _by_test(reports: Sequence[pytest.TestReport]) -> dict[str, dict[str, Any]]:
    return {report.nodeid: dict(report.user_properties) for report in reports}


def _lines(test: dict[str, Any]) -> Iterator[str]:
    yield from str(test["wirefault_reasons"]).splitlines()
    yield from str(test["wirefault_faults"]).splitlines()
    yield f"again: {test['wirefault_again']}"
    yield str(test["wirefault_why"])
