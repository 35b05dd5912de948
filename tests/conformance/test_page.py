"""``docs/conformance.md`` lists what the suite compares."""

import pytest

from tests.conformance.conftest import PAGE
from tests.conformance.kinds import WITH_MODULE
from tests.conformance.page import FOLDER, SECTIONS, Results, listed, page, rows
from tests.conformance.test_signatures import SHOWN


def test_the_page_lists_every_behaviour_that_is_compared(pytestconfig):
    if pytestconfig.getoption("--write-conformance", default=False):
        pytest.skip("the page is about to be renewed")
    expected = [behaviour for _, _, tests in rows() for _, behaviour in tests]
    assert listed(PAGE.read_text(encoding="utf-8")) == expected, "run: make conformance"


def test_every_module_is_a_section():
    modules = {path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")}
    assert modules - set(SECTIONS) == {"page"}


def test_every_kind_that_shows_in_a_try_has_its_signature_tried():
    assert {kind for kind, _, _ in SHOWN} == set(WITH_MODULE) - {"slow_close"}


def test_a_failure_and_a_server_that_was_not_there_are_said():
    class Report:
        when, outcome = "call", "passed"

    results = Results()
    results.versions["embedded"] = "2.12.0"
    results.note("test_latency", "test_x", "embedded", Report)
    assert results.cell("latency", "test_x", "embedded") == "holds, 1"
    assert results.cell("latency", "test_x", "real") == "not run"
    Report.outcome = "failed"
    results.note("test_latency", "test_x", "embedded", Report)
    assert results.cell("latency", "test_x", "embedded") == "**fails**, 1 of 2"
    assert listed(page(results)) == [behaviour for _, _, tests in rows() for _, behaviour in tests]
