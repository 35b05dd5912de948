"""``assert_survives``: an agent's function with prompts, in a user's test."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.suites import NAMED, Session, run_suite, write_suite

pytestmark = pytest.mark.slow

TESTS = """
import httpx
import pytest
from wirefault.pytest_plugin import assert_survives

ONCE = {"nth": "1", "of": "try"}
LOST = [{"fault": "lose_reply", "when": ONCE}]
GONE = [{"fault": "unavailable", "when": ONCE}]

@pytest.fixture
def agent(shop, wirefault_links):
    def run(prompt):
        for _ in range(2):
            reply = httpx.get(shop + "/items")
            if reply.status_code == 200:
                return {"response": f"There are {reply.json()[0]}s."}
        raise RuntimeError("no answer")
    return run

def test_survives(agent, wirefault):
    assert_survives(agent, prompts=["What is there?", "Mugs?"], faults=GONE, repeats=2)

def test_async(shop, wirefault):
    async def agent(prompt):
        async with httpx.AsyncClient() as client:
            return str((await client.get(shop + "/items")).status_code)
    assert_survives(agent, prompts=["x"], faults=GONE, checks=[lambda episode: episode.answer == "503"])

def test_crash(agent, wirefault):
    assert_survives(agent, prompts=["What is there?"], faults="unavailable")

def test_finding(shop, wirefault):
    def agent(prompt):
        for _ in range(2):
            try:
                return httpx.post(shop + "/orders", json={"item": "mug"}).text
            except httpx.TransportError:
                pass
    assert_survives(agent, prompts=["Order a mug."], faults=LOST)

def test_oracle(agent, wirefault):
    wrong = {"prompt": "Cups?", "expect": {"answer": {"contains": "cups"}}}
    assert_survives(agent, prompts=[wrong], faults=GONE)

def test_no_call(wirefault):
    assert_survives(lambda prompt: "Fine.", prompts=["x"], faults=GONE)

def test_bad_prompts(wirefault):
    assert_survives(lambda prompt: "Fine.", prompts=[], faults=GONE)

def test_bad_faults(wirefault):
    assert_survives(lambda prompt: "Fine.", prompts=["x"], faults="gone")
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder, TESTS, conftest=NAMED)
    return run_suite(folder, "--wirefault-seed=7")


@pytest.mark.parametrize("name", ["test_survives", "test_async"])
def test_passes(session: Session, name: str) -> None:
    assert session.cases[name].result == "passed", session.cases[name].message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_crash", "failed: 'What is there?'\n    crash"),
        ("test_finding", "failed: 'Order a mug.'\n    write_repeated (harmful)"),
        ("test_oracle", "failed: 'Cups?'\n    "),
        ("test_no_call", "unknown: 'x'\n    the fault unavailable never arrived"),
        ("test_bad_prompts", "assert_survives: prompts: missing prompts"),
        ("test_bad_faults", "assert_survives: faults: unknown fault set 'gone'"),
    ],
)
def test_says_why_not(session: Session, name: str, message: str) -> None:
    assert session.cases[name].result == "failure"
    assert message in session.cases[name].message


def test_failure_names_run_and_seed(session: Session) -> None:
    assert "1 of 1 episodes, seed 7" in session.cases["test_finding"].message
    assert "why: wirefault show" in session.cases["test_finding"].message
