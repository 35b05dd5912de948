"""JUnit XML of an experiment whose texts hold what XML cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import pytest

from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.verdict import Check
from wirefault.report.junit import junit


@pytest.mark.parametrize("character", ["\ufffe", "\uffff", "\x1b[31m", "\x00", "\ud800", "\x0b", "<&\"'>"])
def test_hostile_characters_leave_readable_xml(character: str) -> None:
    text = f"no{character} duplicate"
    check = Check(text, text, "deviated", expected=text, evidence=(text,))
    result = SimpleNamespace(
        plan=SimpleNamespace(experiment=SimpleNamespace(title=text), arms=[]),
        judged=SimpleNamespace(checks=[check]),
        harm_beside=[text],
        verdict="deviated",
        arms=[],
        timing={},
        run_summary=None,
    )
    root = ElementTree.fromstring(junit([cast(ExperimentResult, result)]).partition("?>")[2])
    case = root.find("testsuite/testcase")
    assert case is not None and case.get("name", "").startswith("no") and case.find("failure") is not None
