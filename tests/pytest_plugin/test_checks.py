"""Checks of marked tests, and evaluators whose own requests meet no fault."""

from __future__ import annotations

import re

import pytest

from tests.pytest_plugin.suites import NAMED, Session, run_suite, write_suite

pytestmark = pytest.mark.slow

TESTS = '''
import httpx
import pytest

URL = {}

class Judge:
    """An evaluator like those of pydantic-evals, whose own model is behind a link with a certain fault."""

    def evaluate(self, ctx):
        statuses = [httpx.get(URL["shop"] + "/items").status_code]
        statuses.append(URL["client"].get(URL["shop"] + "/items").status_code)
        return statuses == [200, 200] and "sorry" in ctx.output

    def evaluate_sync(self, ctx):
        return self.evaluate(ctx)

def agent(shop, wirefault, answer):
    URL["shop"], URL["client"] = shop, httpx.Client()
    assert URL["client"].get(shop + "/items").status_code == 503
    wirefault.answer(answer)

@pytest.mark.wirefault("unavailable", checks=[Judge()])
def test_evaluator(shop, wirefault):
    agent(shop, wirefault, "sorry, no items")

@pytest.mark.wirefault("unavailable", checks=[Judge()])
def test_evaluator_says_no(shop, wirefault):
    agent(shop, wirefault, "all is well")

@pytest.mark.wirefault("unavailable", checks=["failed_calls <= 1", {"answer_contains": "sorry"}])
def test_assertions(shop, wirefault):
    agent(shop, wirefault, "sorry, no items")

def no_answer_needed(episode):
    return len(episode.requests) > 1

@pytest.mark.wirefault("unavailable", checks=no_answer_needed)
def test_function(shop, wirefault):
    agent(shop, wirefault, "sorry")

@pytest.mark.wirefault("unavailable", checks=[Judge()])
def test_without_answer(shop):
    httpx.get(shop + "/items")

@pytest.mark.wirefault("unavailable", checks=[Judge])
def test_class(shop):
    pass
'''


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder, TESTS, conftest=NAMED)
    return run_suite(folder)


@pytest.mark.parametrize("name", ["test_evaluator", "test_assertions"])
def test_passes(session: Session, name: str) -> None:
    assert session.cases[name].result == "passed", session.cases[name].message


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("test_evaluator_says_no", "failure", "Judge: False"),
        ("test_function", "failure", "no_answer_needed: not fulfilled"),
        ("test_without_answer", "failure", "unknown: Judge: the test recorded no answer: wirefault.answer"),
        ("test_class", "error", "checks: Judge is a class: give an instance"),
    ],
)
def test_says_why_not(session: Session, name: str, result: str, message: str) -> None:
    assert session.cases[name].result == result
    assert re.search(message, session.cases[name].message)
