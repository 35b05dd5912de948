"""Statements about measures: their grammar, and when they are unknown."""

from __future__ import annotations

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.experiments.expression import (
    _OPERATIONS,
    _SIGNS,
    Bounds,
    ExpressionError,
    exactly,
    parse_expression,
)

MEASURED = {
    "rate": Bounds(0.85, 0.95),
    "p95": exactly(2.5),
    "duplicate": exactly(0),
    "lost": exactly(1),
    "rarely": Bounds(0, 2),
}


ROWS = [
    ("rate >= 0.8", True),
    ("rate >= 80 %", True),
    ("rate >= 0.9", None),
    ("rate >= 0.96", False),
    ("rate > 0.8", True),
    ("rate > 0.9", None),
    ("rate > 0.95", False),
    ("rate < 0.96", True),
    ("rate < 0.9", None),
    ("rate < 0.85", False),
    ("rate <= 0.95", True),
    ("rate <= 0.9", None),
    ("rate <= 0.84", False),
    ("p95 <= 2500ms", True),
    ("p95 < 2.5 s", False),
    ("rate == 0.9", None),
    ("rate == 0.96", False),
    ("p95 == 2.5", True),
    ("rate != 0.5", True),
    ("rate != 0.9", None),
    ("p95 != 2.5", False),
    ("no duplicate", True),
    ("no lost", False),
    ("no rarely", None),
    ("not no lost", True),
    ("not no duplicate", False),
    ("not no rarely", None),
    ("rate >= 0.9 or no duplicate", True),
    ("rate >= 0.96 or no lost", False),
    ("rate >= 0.9 or no lost", None),
    ("rate >= 0.8 and no duplicate", True),
    ("rate >= 0.9 and no lost", False),
    ("rate >= 0.9 and no duplicate", None),
    ("0.8 <= rate <= 0.96", True),
    ("0.8 <= rate <= 0.84", False),
    ("0.8 <= rate <= 0.9", None),
    ("rate + 0.1 >= 0.95", True),
    ("rate + 0.1 >= 1", None),
    ("rate + 0.1 >= 1.1", False),
    ("1 - rate <= 0.2", True),
    ("1 - rate <= 0.1", None),
    ("1 - rate <= 0.01", False),
    ("rate * 2 >= 1.7", True),
    ("rate * 2 >= 1.8", None),
    ("rate * 2 >= 2", False),
    ("rate / 2 >= 0.4", True),
    ("rate / 2 >= 0.45", None),
    ("rate / 2 >= 0.5", False),
    ("p95 / duplicate > 1", None),
    ("-rate <= -0.8", True),
    ("-rate <= -0.9", None),
    ("-rate <= -0.96", False),
    ("p95 * 2 == 5 and p95 + 1 > 3 and -p95 < 0", True),
]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_statement_is_true_false_or_unknown(text: str, expected: bool | None) -> None:
    assert parse_expression(text).holds(MEASURED) is expected


def test_each_expression_has_all_three_results() -> None:
    forms = (*_SIGNS, *_OPERATIONS, ast.And, ast.Or, ast.Not, ast.USub)
    answers = {form: set[bool | None]() for form in forms}
    for text, expected in ROWS:
        for node in ast.walk(parse_expression(text)._tree):
            if type(node) in answers:
                answers[type(node)].add(expected)
    assert [form.__name__ for form, results in answers.items() if len(results) < 3] == []


@pytest.mark.parametrize(
    "text",
    [
        *("", "rate", "0.9", "rate >=", "rate = 0.9", "no", "rate >= 'high'", "rate >= True"),
        *("__import__('os').system('x') == 0", "rate.real > 1", "rate[0] > 1", "(lambda: 1)() > 0"),
        *("rate in (1, 2)", "rate ** 9 > 1", "9 // rate > 1", "x" * 501, "[rate > 1]", "(" * 300, "a\0 > 1"),
    ],
)
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text)


def test_names_are_listed_in_order() -> None:
    assert parse_expression("no duplicate and p95 <= rate * p95").names == ("duplicate", "p95", "rate")


FIGURES = st.floats(-100, 100, allow_nan=False)


@given(a=st.tuples(FIGURES, FIGURES), b=st.tuples(FIGURES, FIGURES), at=st.tuples(*[st.floats(0, 1)] * 2))
def test_result_for_bounds_holds_inside_bounds(
    a: tuple[float, float], b: tuple[float, float], at: tuple[float, float]
) -> None:
    bounds = {"a": Bounds(*sorted(a)), "b": Bounds(*sorted(b))}
    inside = {
        name: min(max(limits.low + share * (limits.high - limits.low), limits.low), limits.high)
        for (name, limits), share in zip(bounds.items(), at, strict=True)
    }
    for sign in ("<", "<=", ">", ">=", "==", "!="):
        known = parse_expression(f"a {sign} b").holds(bounds)
        points = {name: exactly(value) for name, value in inside.items()}
        assert known in (None, parse_expression(f"a {sign} b").holds(points))
    product, (x, y) = bounds["a"] * bounds["b"], inside.values()
    assert product.low <= x * y <= product.high or math.isclose(x * y, product.low, abs_tol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        f"success_rate >= {'9' * 480}",
        f"p95 <= {'9' * 400}s",
        "tokens <= 1e999",
        f"tokens <= 2 * {'9' * 320}.5",
    ],
)
def test_out_of_range_number_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="a number must be at most"):
        parse_expression(text)


def test_percentage_of_a_share_is_read() -> None:
    assert parse_expression("success_rate >= 90 % and degradation <= 100 %").names
