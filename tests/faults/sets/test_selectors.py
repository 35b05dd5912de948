"""Which requests a fault's selectors choose."""

from __future__ import annotations

import json

import pytest

from tests.faults.tries import eligible
from wirefault.dialects.http import Request
from wirefault.faults.sets.conditions import Only

BODY = {"to": "Bob", "options": {"priority": 2, "tags": ["a"]}, "n": None}
REQUEST = Request((("X-Team", "blue"), ("X-Empty", "")), json.dumps(BODY).encode(), "POST", "/message?x=1")


@pytest.mark.parametrize(
    "only",
    [
        {},
        {"method": "post"},
        {"path": "/message"},
        {"path": "/mess*"},
        {"header": {"x-team": "blue"}},
        {"header": {"X-Team": "b*"}},
        {"header": {"X-Team": "*", "X-Empty": "*"}},
        {"header": {"X-Empty": ""}},
        {"json": {"to": "Bob"}},
        {"json": {"options.priority": 2}},
        {"json": {"options": {"priority": 2, "tags": ["a"]}}},
        {"method": "POST", "path": "/message", "json": {"to": "Bob"}},
    ],
)
def test_selector_matches(only):
    assert eligible(Only(**only), REQUEST)


@pytest.mark.parametrize(
    "only",
    [
        {"method": "GET"},
        {"path": "/inbox"},
        {"header": {"x-team": "red"}},
        {"header": {"x-other": "*"}},
        {"header": {"x-other": ""}},
        {"header": {"x-team": ""}},
        {"header": {"x-team": "*", "x-other": "*"}},
        {"header": {"x-other": "b"}},
        {"json": {"to": "bob"}},
        {"json": {"to": "Bob", "options.priority": 3}},
        {"json": {"to.first": "B"}},
        {"method": "POST", "path": "/message", "json": {"to": "Ann"}},
    ],
)
def test_selector_does_not_match(only):
    assert not eligible(Only(**only), REQUEST)


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'"Bob"', b"[" * 100_000])
def test_non_object_body_lacks_fields(body):
    assert not eligible(Only(json={"to": "Bob"}), Request(body=body))


def test_absent_field_is_not_null():
    assert eligible(Only(json={"n": None}), REQUEST)
    assert not eligible(Only(json={"absent": None}), REQUEST)


@pytest.mark.parametrize(
    ("actual", "wanted", "same"),
    [
        (None, None, True),
        (0, None, False),
        (1, 1.0, True),
        (1.0, 1, True),
        (1, "1", False),
        (1, True, False),
        (0, False, False),
        ([], [], True),
        ([[1, "a"], [2]], [[1, "a"], [2]], True),
        ([[1, "a"], [2]], [[1, "a"]], False),
        ([[1, "a"]], [[1, "a"], [2]], False),
        (["a", "b"], ["b", "a"], False),
        (["a"], "a", False),
        ([1], [True], False),
        ([{"x": 1}], [{"x": 1.0}], True),
        ({"x": 1}, {"x": True}, False),
        ({"x": 1, "y": 2}, {"x": 1}, False),
        ({"x": 1}, {"x": 1, "y": None}, False),
        ({}, [], False),
    ],
)
def test_field_equals_json_value(actual, wanted, same):
    request = Request(body=json.dumps({"a": {"b": actual}}).encode())
    assert eligible(Only(json={"a.b": wanted}), request) is same
