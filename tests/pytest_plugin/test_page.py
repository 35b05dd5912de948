"""docs/pytest.md: every snippet runs as printed, in one suite."""

from __future__ import annotations

import re

import pytest

from tests.pytest_plugin.suites import CONFTEST, Session, run_suite, write_suite
from tests.support import ROOT
from wirefault.pytest_plugin import _OPTIONS

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("page")
    [fixtures] = [snippet for snippet in SNIPPETS if "def wirefault_links" in snippet]
    write_suite(folder, SNIPPETS[0], conftest=f"{CONFTEST}\n{fixtures}")
    for number, snippet in enumerate(SNIPPETS[1:]):
        if snippet != fixtures:
            (folder / f"test_snippet{number}.py").write_text(snippet)
    return run_suite(folder, "--wirefault-seed=7")


def test_first_test_fails_as_printed(session: Session) -> None:
    case = session.cases["test_order"]
    assert case.result == "failure"
    printed = PAGE.partition("```text\n")[2].partition("```")[0].replace("test_order.py", "test_agent.py")
    section = session.output.partition("wirefault, seed 7")[2]
    for line in printed.splitlines():
        assert _varied(line) in _varied(section), section


def _varied(text: str) -> str:
    """Without times, run ids and the hash of the test's place."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", text)
    return re.sub(r"\b[\d.]+ m?s\b|-[0-9a-f]{6}\b", "VARIES", text)


def test_other_snippets_pass(session: Session) -> None:
    others = {name: case for name, case in session.cases.items() if name != "test_order"}
    assert {"test_clients[asyncio]", "test_answer", "test_agent", "test_items[repeat4]"} <= others.keys()
    failed = {name: case.message for name, case in others.items() if case.result in ("failure", "error")}
    assert not failed
    assert any(case.result == "passed" for name, case in others.items() if name.startswith("test_items"))


@pytest.mark.parametrize("name", [option[0] for option in _OPTIONS] + ["paid"])
def test_page_lists_each_option(name: str) -> None:
    assert f"| `--wirefault-{name}" in PAGE
