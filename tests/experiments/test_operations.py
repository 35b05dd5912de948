"""Tool calls in a fixed order, as an experiment's subject."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from wirefault import Experiment, Operations, call
from wirefault.core.errors import InputError

TOOLS = {"search": lambda query: [query.upper()], "add": lambda a, b: a + b}
CALLS = [
    call("search", "ai safety", expected=["AI SAFETY"]),
    call("add", 2, b=2, expected=4),
    call("add", 1, 1),
]


def answered(operations: Operations) -> dict[str, Any]:
    """The answer without a lab."""
    return json.loads(operations("")["response"])


def test_results_are_compared_with_what_is_expected() -> None:
    answer = answered(Operations(TOOLS, [*CALLS, call("add", 2, 2, expected=5), call("add", 1, "x")]))
    assert answer["status"] == "failed"
    assert [each["as_expected"] for each in answer["operations"]] == [True, True, True, False, False]
    assert answer["operations"][-1]["error"].startswith("TypeError")
    assert answered(Operations(TOOLS, CALLS))["status"] == "done"


def test_file_of_a_scenario_is_read(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    operations = [
        {"tool": "search", "args": ["x"], "expected": ["X"]},
        {"tool": "add", "kwargs": {"a": 1, "b": 2}},
    ]
    file.write_text(json.dumps({"name": "sample", "operations": operations}))
    assert answered(Operations.load(file, TOOLS))["status"] == "done"


@pytest.mark.parametrize(
    ("results", "as_expected"),
    [
        ([["X"], 3], [True, True]),
        ([["Y"], 4], [True, False]),
        ({"add": 4}, [True, False]),
        ({"search": ["Y"]}, [True, True]),  # the operation's own decides
    ],
)
def test_expected_results_of_a_scenario_are_checked(
    tmp_path: Path, results: Any, as_expected: list[bool]
) -> None:
    file = tmp_path / "scenario.json"
    operations = [{"tool": "search", "args": ["x"], "expected": ["X"]}, {"tool": "add", "args": [1, 2]}]
    file.write_text(json.dumps({"operations": operations, "expected_results": results}))
    answer = answered(Operations.load(file, TOOLS))
    assert [each["as_expected"] for each in answer["operations"]] == as_expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "scenario.json: "),
        ("{}", "operations: must be a list"),
        ('{"operations": [{"args": []}]}', r"operations\[0\]: must be an object with a tool's name"),
        ('{"operations": [{"tool": "add", "arg": []}]}', "unknown key 'arg'; did you mean 'args'"),
        ('{"operations": [{"tool": "add", "args": {}}]}', "args must be a list"),
        ('{"operations": [{"tool": "add"}], "expected_results": []}', "must be a list of 1 results"),
        ('{"operations": [{"tool": "add"}], "expected_results": {"ad": 1}}', "no operation calls 'ad'"),
        ('{"operations": [{"tool": "ad"}]}', "unknown tool 'ad'; did you mean 'add'"),
    ],
)
def test_bad_file_is_explained(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        Operations.load(file, TOOLS)


@pytest.mark.slow
def test_experiment_says_which_operation_failed(tmp_path: Path) -> None:
    operations = Operations(TOOLS, CALLS, writes=["add"])
    fault = {"fault": "unavailable", "links": "functions", "only": {"path": "/search"}}
    report = Experiment(
        subject=operations, prompts=["run"], faults={"faults": [fault]}, checks=[operations.as_expected]
    ).run(folder=tmp_path)
    assert report.verdict == "deviated"
    [check] = [check for check in report.checks if check.verdict == "deviated"]
    assert "1 of 3 operations not as expected: search: HTTPError" in str(check)


@pytest.mark.slow
def test_snippet_of_page_holds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    [program] = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Operations(" in code
    ]
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["experiment"].run(folder=tmp_path).verdict == "held"
