"""At which requests a fault is aimed."""

from __future__ import annotations

import json

import pytest

from windtunnel.faults.message import Request
from windtunnel.faults.only import Only

BODY = {"to": "Bob", "options": {"priority": 2, "tags": ["a"]}, "n": None}
REQUEST = Request((("X-Team", "blue"),), json.dumps(BODY).encode(), "POST", "/message?x=1")


@pytest.mark.parametrize(
    "only",
    [
        {},
        {"method": "post"},
        {"path": "/message"},
        {"path": "/mess*"},
        {"header": {"x-team": "blue"}},
        {"header": {"X-Team": "b*"}},
        {"json": {"to": "Bob"}},
        {"json": {"options.priority": 2}},
        {"json": {"options": {"priority": 2, "tags": ["a"]}}},
        {"method": "POST", "path": "/message", "json": {"to": "Bob"}},
    ],
)
def test_matches(only):
    assert Only(**only).matches(REQUEST)


@pytest.mark.parametrize(
    "only",
    [
        {"method": "GET"},
        {"path": "/message?x=1"},
        {"path": "/inbox"},
        {"header": {"x-team": "red"}},
        {"header": {"x-other": "b"}},
        {"json": {"to": "bob"}},
        {"json": {"to": "Bob", "options.priority": 3}},
        {"json": {"to.first": "B"}},
        {"method": "POST", "path": "/message", "json": {"to": "Ann"}},
    ],
)
def test_does_not_match(only):
    assert not Only(**only).matches(REQUEST)


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'"Bob"', b"[" * 100_000])
def test_a_body_that_is_no_object_has_no_field(body):
    assert not Only(json={"to": "Bob"}).matches(Request(body=body))


def test_an_absent_field_is_not_null():
    assert Only(json={"n": None}).matches(REQUEST)
    assert not Only(json={"absent": None}).matches(REQUEST)
