"""The wrapper on real objects: every call crosses a real lab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.shared_imports import shared_imports
from tests.support import ROOT, until
from wirefault import Wrapper
from wirefault.core.errors import InputError

pytestmark = pytest.mark.slow
FAILURE = requests.HTTPError  # this module's HTTP client is requests


class Agent:
    """An agent whose tools are methods."""

    def __init__(self) -> None:
        self.searched: list[str] = []

    def search(self, query: str) -> str:
        self.searched.append(query)
        return f"results for {query}"


class Tool:
    """A tool as CrewAI and LangChain have it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0

    def _run(self, item: str) -> str:
        self.runs += 1
        return f"{item} ordered"

    def run(self, item: str) -> str:
        return self._run(item)


class Crew:
    def __init__(self) -> None:
        self.tool = Tool("place_order")
        self.agents = [type("CrewAgent", (), {"tools": [self.tool]})()]

    def kickoff(self, inputs: dict[str, str]) -> str:
        return self.tool.run(inputs["item"])


@pytest.fixture(scope="module", autouse=True)
def _shared_imports() -> Iterator[None]:
    with shared_imports():
        yield


@pytest.fixture
def wrapper() -> Iterator[Wrapper]:
    with Wrapper(Agent(), level=2, seed=5) as made:
        yield made


def outcomes(wrapper: Wrapper, count: int) -> list[str]:
    results = []
    for number in range(count):
        try:
            results.append(wrapper.call("search", f"q{number}"))
        except FAILURE:
            results.append("failed")
    return results


def test_calls_fail_at_the_levels_rate_and_are_counted(wrapper: Wrapper) -> None:
    wrapper.configure(enable_delays=False)
    results = outcomes(wrapper, 200)
    failed = results.count("failed")
    # 20 % of 200: outside 20 to 62 with a chance below 0.0002
    assert 20 <= failed <= 62
    operations = wrapper.metrics["aggregate"]["operations"]
    assert (operations["total"], operations["failed"]) == (200, failed)
    assert operations["success_rate"] == (200 - failed) / 200
    until(lambda: wrapper.metrics["faults"] == {"unavailable": failed})  # the last one is recorded later
    # a failed call is never tried again
    assert len(wrapper.wrapped.searched) == 200 - failed  # type: ignore[attr-defined]
    assert wrapper.get_metrics()["rate"] == 0.2


def test_level_0_changes_nothing() -> None:
    with Wrapper(Agent()) as calm:
        assert outcomes(calm, 5) == [f"results for q{number}" for number in range(5)]
        assert calm.metrics["aggregate"]["operations"]["success_rate"] == 1
        assert calm.metrics["faults"] == {}
    assert calm.metrics["aggregate"]["operations"]["total"] == 5


def test_same_seed_fails_the_same_calls() -> None:
    runs = []
    for _ in range(2):
        with Wrapper(Agent(), level=2, seed=9).configure(enable_delays=False) as each:
            runs.append(outcomes(each, 30))
    assert runs[0] == runs[1]
    assert "failed" in runs[0]


def test_crews_tools_meet_the_faults() -> None:
    crew = Crew()
    with Wrapper(crew, level=2).configure(enable_delays=False, enable_context_corruption=True) as wrapper:
        for _ in range(60):
            try:
                wrapper.kickoff({"item": "red apple"})
            except FAILURE:
                continue
        faults = wrapper.metrics["faults"]
    assert set(faults) == {"unavailable", "changed_arguments"}
    assert crew.tool.runs == 60 - faults["unavailable"]


def test_budget_ends_the_calls() -> None:
    with Wrapper(Agent()).configure(enable_budget_exhaustion=True) as wrapper:
        results = outcomes(wrapper, 102)
    assert results.count("failed") == 2
    assert results[100:] == ["failed"] * 2


@pytest.mark.parametrize("tools", [{"search": str.upper}, [Tool("search")]])
def test_tools_may_be_a_mapping_or_a_list(tools: Any) -> None:
    holder = type("Holder", (), {"tools": tools})()
    with Wrapper(holder) as wrapper:
        assert wrapper.call("search", "apple") in ("APPLE", "apple ordered")


def test_wrong_use_is_explained() -> None:
    wrapper = Wrapper(Agent())
    with pytest.raises(InputError, match="unknown tool 'serch'; did you mean 'search'"):
        wrapper.call("serch", "x")
    with pytest.raises(InputError, match="unknown switch 'enable_delay'"):
        wrapper.configure(enable_delay=True)
    with pytest.raises(InputError, match="from 0 to 2, not 3"):
        Wrapper(Agent(), level=3)
    with pytest.raises(InputError, match="has no such method"):
        wrapper.kickoff()
    with pytest.raises(InputError, match="has no tools"):
        Wrapper(type("Empty", (), {"kickoff": lambda self: None})()).kickoff()


def test_snippets_of_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    from langchain_core.tools import tool

    @tool
    def get_price(item: str) -> str:
        """Return a price."""
        return f"{item}: 3.5"

    snippets = [code for code in page_snippets() if "Wrapper" in code]
    assert len(snippets) == 2
    agent = type("LangChainAgent", (), {"tools": [get_price]})()
    for code in snippets:
        exec(code, {"crew": Crew(), "agent": agent})
    assert "apple: 3.5" in capsys.readouterr().out


def page_snippets() -> list[str]:
    """The Python snippets of the page about functions."""
    text = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)
