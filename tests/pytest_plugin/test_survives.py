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
    report = assert_survives(agent, prompts=["What is there?", "Mugs?"], faults=GONE, repeats=2)
    assert list(report.arms) == ["control", "method", "control-after"]
    assert [episode.answer for episode in report.arms["method"].episodes] == ["There are mugs."] * 4

class Shopper:
    client = httpx.Client()
    shop = ""

    def __call__(self, prompt, context):
        return f"{self.client.get(self.shop + '/items').status_code}, attempt {context.attempt}"

def test_class(shop):
    Shopper.shop = shop
    report = assert_survives(Shopper, prompts=["x"], faults=GONE)
    assert report.arms["method"].episodes[0].answer == "503, attempt 1"

def test_fails_without_faults(shop):
    def agent(prompt):
        httpx.get(shop + "/items")
        raise RuntimeError("never")
    assert_survives(agent, prompts=["x"], faults=GONE)

def test_check(agent):
    assert_survives(agent, prompts=["x"], faults=GONE, checks=[{"answer_contains": "cups"}])

def test_no_faults(agent):
    assert_survives(agent, prompts=["x"])

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


@pytest.mark.parametrize("name", ["test_survives", "test_async", "test_class"])
def test_passes(session: Session, name: str) -> None:
    assert session.cases[name].result == "passed", session.cases[name].message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_crash", "failed: 'What is there?'\n    crash"),
        ("test_finding", "failed: 'Order a mug.'\n    write_repeated (harmful)"),
        ("test_oracle", "failed: 'Cups?'\n    "),
        ("test_no_call", "\n    the fault unavailable never arrived"),
        ("test_fails_without_faults", "was not in its steady state before any fault"),
        ("test_check", "answer_contains"),
        ("test_bad_prompts", "prompts: missing prompts"),
        ("test_no_faults", "assert_survives: faults: missing"),
        ("test_bad_faults", "assert_survives: faults: unknown fault set 'gone'"),
    ],
)
def test_says_why_not(session: Session, name: str, message: str) -> None:
    assert session.cases[name].result == "failure"
    assert message in session.cases[name].message


def test_failure_names_run_and_seed(session: Session) -> None:
    assert "seed 7\nfailed" in session.cases["test_finding"].message
    assert "why: wirefault show" in session.cases["test_finding"].message
