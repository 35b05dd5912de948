"""Statements, their kinds, and claims that a plan cannot decide."""

from __future__ import annotations

import pytest

from wirefault.experiments.estimates import Population, Terms
from wirefault.experiments.expression import ExpressionError
from wirefault.experiments.hypothesis import checked_text, parse_statements, statement_text, undecidable


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "no duplicate and success_rate >= 0.9",
            [("no duplicate", "check"), ("success_rate >= 0.9", "claim")],
        ),
        (
            "(success >= 1 and crash == 0) or p95 <= 5s",
            [("(success >= 1 and crash == 0) or p95 <= 5s", "claim")],
        ),
        (
            "tokens <= 1.2 * control_tokens where faulted",
            [("tokens <= 1.2 * control_tokens where faulted", "claim")],
        ),
        ("no crash within 5 %", [("no crash within 5 %", "check")]),
        ("pass^3 >= 80 % and pass@2 >= 0.9", [("pass^3 >= 80 %", "claim"), ("pass@2 >= 0.9", "claim")]),
    ],
)
def test_each_statement_has_its_kind(text: str, kinds: list[tuple[str, str]]) -> None:
    assert [(statement.text, statement.kind) for statement in parse_statements(text)] == kinds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("success_rate == 1", "success_rate is estimated, so == and != cannot be decided"),
        ("no degradation", "degradation is estimated"),
        ("pass^3 >= 80", r"pass\^3 is at most 1, not 80; did you mean 80 %"),
        ("success_rate >= 90", r"success_rate is at most 1, not 90; did you mean 90 %\?"),
        ("90 <= success_rate", r"success_rate is at most 1, not 90; did you mean 90 %\?"),
        ("p50 > 0 or success_rate > 90", "success_rate is at most 1, not 90"),
        ("availability >= 99.5", r"availability is at most 1, not 99.5; did you mean 99.5 %\?"),
        ("degradation <= 500", "degradation is at most 1, not 500$"),
        ("no pass@2", "pass@2 is estimated"),
        ("degradation >= -2", "degradation is at least -1, not -2"),
        ("amplification <= 0.5", "amplification is at least 1"),
        ("no crash within 5", "within must be followed by a share"),
        ("no tokens within 5 %", "within: tokens is not a count of episodes"),
        ("no crash where met", "where must be followed by `faulted`"),
    ],
)
def test_impossible_statement_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        parse_statements(text)


@pytest.mark.parametrize("name", ["pass^0", "pass@1001", "control_pass^0"])
def test_number_of_tries_has_limits(name: str) -> None:
    with pytest.raises(ValueError, match=r"k of .* must be 1 to 1000"):
        checked_text(f"{name} >= 0.8", with_control=True)
    with pytest.raises(ValueError, match=r"control_pass\^3 is not a measure"):
        checked_text("control_pass^3 >= 0.8", with_control=False)


def test_where_is_key_or_suffix() -> None:
    assert statement_text({"statement": "no crash", "where": "faulted"}) == "no crash where faulted"
    with pytest.raises(ValueError, match="the control has no faults"):
        checked_text("no crash where faulted", with_control=False)


SENTENCE = (
    "success_rate >= 0.9 needs at least 29 episodes, this plan has 4: use repeats: 8, --until-decided,"
    " or success == all"
)


@pytest.mark.parametrize(
    ("text", "prompts", "repeats", "population", "problem"),
    [
        ("success_rate >= 0.9", 4, 1, "these", SENTENCE),
        ("success_rate >= 0.9", 4, 8, "these", ""),
        (
            "success_rate >= 0.9",
            4,
            8,
            "like_these",
            "needs at least 29 prompts, this plan has 4: add prompts",
        ),
        ("success_rate >= 0.9", 29, 1, "like_these", ""),
        ("success_rate >= 1", 400, 1, "these", "cannot hold for any number of episodes: use a margin"),
        (
            "degradation <= 5 %",
            13,
            3,
            "these",
            "needs at least 59 episodes, this plan has 39: use repeats: 5",
        ),
        ("p95 <= 5s", 20, 1, "these", "needs at least 59 episodes, this plan has 20: use repeats: 3"),
        ("tokens <= 500", 5, 1, "these", "needs at least 20 episodes"),
        ("pass^3 >= 0.8", 4, 5, "these", "44 episodes, this plan has 20: use repeats: 11, or success == all"),
        ("pass^3 >= 0.8", 4, 11, "these", ""),
        ("pass@2 >= 0.9", 4, 1, "like_these", "needs 2 repeats of each prompt, this plan has 1"),
        ("pass@2 >= 0.9", 4, 2, "like_these", "needs at least 29 prompts, this plan has 4"),
        (
            "no crash within 5 %",
            4,
            1,
            "these",
            "needs at least 59 episodes, this plan has 4: use repeats: 15",
        ),
        ("success == all", 1, 1, "these", ""),
        ("success_rate <= 0.5", 5, 1, "these", ""),  # five successes refute it
    ],
)
def test_claim_that_plan_cannot_decide(
    text: str, prompts: int, repeats: int, population: Population, problem: str
) -> None:
    [statement] = parse_statements(text)
    line = undecidable(statement, prompts, repeats, Terms(population=population))
    assert problem in line and bool(line) is bool(problem)
