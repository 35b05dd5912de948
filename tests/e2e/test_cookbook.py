"""The cookbook: the audit finds the fault of each agent, and none in the mended one, as the page shows."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT, share
from tools.cookbook import PAGE, RECIPES, Audited, Recipe, audit_all, page

AGENTS = ROOT / "examples" / "cookbook"
RULES = {
    "doubled_by_retry": "write_repeated",
    "doubled_by_replay": "write_repeated",
    "no_fallback": "done_but_not_told",
    "stalled_stream": "done_but_not_told",
    "empty_answer": "empty_reply",
    "success_after_failure": "not_done_but_told",
    "mcp_drop": "useless_retry",
    "loop_on_failing_call": "useless_retry",
    "retry_after_ignored": "hasty_retry",
    "retries_multiplied": "useless_retry",
}
# durations, and the runs: a busy machine repeats a question or not
_DURATION = re.compile(r"\d+(?:\.\d+)?(?: to \d+(?:\.\d+)?)? (?:ms|s)\b|\d+ of \d+  q")


# the two audits of a recipe take half a minute of processor time
AUDITED = [recipe for number, recipe in enumerate(RECIPES) if share(number)]


@pytest.fixture(scope="module")
def audited() -> dict[tuple[str, str], Audited]:
    return audit_all(AUDITED)


def sections(text: str) -> list[str]:
    return _DURATION.sub("#", text).split("\n## ")


@pytest.mark.slow
def test_page_shows_what_the_audit_prints(audited: dict[tuple[str, str], Audited]) -> None:
    introduction, *listed = sections(PAGE.read_text(encoding="utf-8"))
    again, *printed = sections(page(audited, AUDITED))
    assert again == introduction
    titles = [recipe.title for recipe in AUDITED]
    assert printed == [each for each in listed if each.partition("\n")[0] in titles]


@pytest.mark.slow
@pytest.mark.parametrize("name", [recipe.name for recipe in AUDITED])
def test_fault_is_found_only_before_it_is_mended(audited: dict[tuple[str, str], Audited], name: str) -> None:
    assert {each["finding"] for each in audited[name, "faulty"].document["answers"]} == {RULES[name]}
    assert {each["status"] for each in audited[name, "mended"].document["answers"]} == {"fine"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_agent_is_short_and_on_the_page(recipe: Recipe) -> None:
    lines = (AGENTS / f"{recipe.name}.py").read_text(encoding="utf-8").splitlines()
    assert 20 <= len(lines) <= 60
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"https://github.com/{issue}" in text for issue in recipe.issues)
    assert f"examples/cookbook/{recipe.name}.py" in text


def test_each_recipe_has_its_rule() -> None:
    assert [recipe.name for recipe in RECIPES] == list(RULES)
