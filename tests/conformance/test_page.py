"""``docs/conformance.md`` lists what the suite compares."""

import pytest

from tests.conformance.conftest import PAGE
from tests.conformance.kinds import WITH_MODULE
from tests.conformance.page import FOLDER, SECTIONS, Results, listed, page, rows
from tests.conformance.test_signatures import SHOWN


def test_page_lists_every_compared_behaviour(pytestconfig):
    if pytestconfig.getoption("--write-conformance", default=False):
        pytest.skip("the page is about to be renewed")
    expected = [behaviour for _, _, tests in rows() for _, behaviour in tests]
    assert listed(PAGE.read_text(encoding="utf-8")) == expected, "run: make conformance"


def test_each_module_is_page_section():
    modules = {path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")}
    assert modules - set(SECTIONS) == {"page"}


def test_each_visible_kind_has_signature_test():
    assert {kind for kind, _, _ in SHOWN} == set(WITH_MODULE) - {"slow_close"}


def test_failures_and_missing_servers_are_shown():
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
