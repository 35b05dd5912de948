"""Tools of a framework in marked tests: LangChain's, without any change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.pytest_plugin.suites import COMMAND, write_suite

pytestmark = pytest.mark.slow

TESTS = """
import pytest
from langchain_core.tools import tool

ORDERS = []

@tool
def place_order(item: str) -> str:
    "Place an order."
    ORDERS.append(item)
    return "placed"

@pytest.mark.wirefault(faults=[{"fault": "duplicate_request", "links": "functions"}])
def test_delivered_twice():
    assert place_order.invoke({"item": "mug"}) == "placed"
    assert ORDERS == ["mug", "mug"]

@pytest.mark.wirefault(faults=[{"fault": "lose_reply", "links": "functions"}])
def test_lost_reply():
    with pytest.raises(ConnectionError):
        place_order.invoke({"item": "cup"})
    assert ORDERS[-1] == "cup"

def test_unmarked():
    assert place_order.invoke({"item": "pot"}) == "placed"
"""


def test_function_tools_meet_the_faults_of_their_test(tmp_path: Path) -> None:
    write_suite(tmp_path, TESTS, conftest="")
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
