"""malformed, empty, partial, schema_drift, stale: effects on the body."""

from __future__ import annotations

import json

import pytest

from tests.faults.tries import a_try, always, changed, keyed, why_not
from wirefault.dialects.http import JSON_TYPE, Reply, json_reply
from wirefault.faults.base import MAX_EVIDENCE, Miss
from wirefault.faults.catalogue.http.body import KINDS, Empty, Malformed
from wirefault.faults.catalogue.http.content import Partial, SchemaDrift, Stale

WEATHER = {"city": "Zürich", "main": {"max_temp": 12.5}, "days": [{"max_temp": 1}, {"max_temp": 2}]}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("cut_json", b'{"a": ["\xc3'),
        ("trailing_comma", '{"a": ["ü"],}'.encode()),
        ("bom", b"\xef\xbb\xbf" + '{"a": ["ü"]}'.encode()),
        ("latin1", b'{"a": ["\xfc"]}'),
        ("double_encoding", '"{\\"a\\": [\\"ü\\"]}"'.encode()),
        ("nul", b'{"a": \0\0\0["\xc3\xbc"]}'),
    ],
)
def test_each_malformation(kind, body):
    made, evidence = changed(Malformed(kind=kind), {"a": ["ü"]})
    assert made.body == body and evidence["kind"] == kind


def test_html_page_always_has_200():
    made, _ = changed(Malformed(kind="html"), json_reply(503, {}))
    assert (made.status, made.header("content-type"), made.body[:6]) == (200, "text/html", b"<html>")


@pytest.mark.parametrize("was", ["application/json", "text/html"])
def test_content_type_changes_and_body_stays(was):
    made, evidence = changed(Malformed(kind="content_type"), Reply((("content-type", was),), b"{}"))
    assert made.body == b"{}" and not made.header("content-type").startswith(was)
    assert "original" not in evidence


def test_default_kind_is_drawn_from_effective_kinds():
    kinds = {changed(Malformed(), {"a": 1}, a_try(chance=keyed(n)))[1]["kind"] for n in range(99)}
    assert kinds == set(KINDS) - {"latin1"}


@pytest.mark.parametrize(
    ("kind", "reply", "why"),
    [
        ("latin1", json_reply(200, {"a": "ascii"}), "nothing_to_change"),
        ("cut_json", Reply(body=b"no json"), "unreadable"),
        ("trailing_comma", Reply(body=b"no json"), "unreadable"),
        ("nul", Reply(), "nothing_to_change"),
    ],
)
def test_ineffective_malformation(kind, reply, why):
    assert why_not(Malformed(kind=kind), reply) == why


@pytest.mark.parametrize(
    ("kind", "body"), [("body", b""), ("object", b"{}"), ("array", b"[]"), ("null", b"null")]
)
def test_empty_reply_fault(kind, body):
    made, evidence = changed(Empty(kind=kind), {"a": 1})
    assert (made.body, evidence["original"]) == (body, '{"a": 1}')
    assert why_not(Empty(kind=kind), Reply(body=body)) == "nothing_to_change"


def test_partial_keeps_first_part_of_longest_list():
    made, evidence = changed(Partial(), {"a": [1], "b": {"c": [1, 2, 3, 4, 5]}})
    assert made.json() == {"a": [1], "b": {"c": [1, 2]}}
    assert (evidence["field"], evidence["original"], evidence["changed"]) == (
        "b.c", [1, 2, 3, 4, 5], [1, 2],
    )  # fmt: skip


def test_partial_keeps_some_fields_without_list():
    value = dict.fromkeys("abcdef", 1)
    parts = [changed(Partial(), value, a_try(chance=keyed(n)))[0].json() for n in range(20)]
    assert all(len(one) == 3 and one.items() <= value.items() for one in parts)
    assert len({tuple(one) for one in parts}) > 1


@pytest.mark.parametrize(
    ("fault", "value"), [(Partial(), 3), (Partial(kind="list"), {"a": [1]}), (Partial(kind="fields"), [1, 2])]
)
def test_reply_without_losable_part(fault, value):
    assert why_not(fault, value) == "nothing_to_change"


@pytest.mark.parametrize(
    ("kind", "days"),
    [
        ("rename", [{"maxTemp": 1}, {"maxTemp": 2}]),
        ("drop", [{}, {}]),
        ("retype", [{"max_temp": "1"}, {"max_temp": "2"}]),
        ("wrap", [{"max_temp": {"value": 1}}, {"max_temp": {"value": 2}}]),
    ],
)
def test_schema_drift_changes_each_occurrence(kind, days):
    made, evidence = changed(SchemaDrift(kind=kind, field="days.max_temp"), WEATHER)
    assert made.json() == {**WEATHER, "days": days}
    assert (evidence["field"], evidence["occurrences"], evidence["original"]) == ("days.max_temp", 2, 1)


def test_schema_drift_draws_from_all_fields():
    fields = {changed(SchemaDrift(), WEATHER, a_try(chance=keyed(n)))[1]["field"] for n in range(99)}
    assert fields == {"city", "main", "main.max_temp", "days", "days.max_temp"}


@pytest.mark.parametrize(
    ("value", "retyped"),
    [(1.5, "1.5"), (True, "true"), ("a", ["a"]), (None, ""), ([1], "[1]"), ({"b": 1}, '{"b": 1}')],
)
def test_retype_always_changes_type(value, retyped):
    assert changed(SchemaDrift(kind="retype"), {"a": value})[0].json() == {"a": retyped}


def test_renamed_field_keeps_position_and_overwrites_nothing():
    made, _ = changed(SchemaDrift(field="title", to="id"), {"title": 1, "id": 2})
    assert made.body == b'{"id_": 1, "id": 2}'


def test_missing_field_cannot_drift():
    assert why_not(SchemaDrift(field="nope"), WEATHER) == "nothing_to_change"


def test_stale_returns_newest_different_reply():
    earlier = [json_reply(200, "a"), json_reply(200, "b"), json_reply(200, "c")]
    tried = a_try(earlier=earlier)
    assert changed(Stale(), "c", tried)[0].json() == "b"
    assert changed(Stale(which="oldest"), "c", tried)[0].json() == "a"


def test_stale_needs_different_earlier_reply():
    assert Stale().act(a_try()) == Miss("no_earlier_answer")
    assert why_not(Stale(), "a", a_try(earlier=[json_reply(200, "a")])) == "no_earlier_answer"


def test_evidence_is_cut_at_four_kib():
    large = {"a": ["x" * 100] * 1000}
    for fault in (Partial(), SchemaDrift(kind="retype", field="a"), Malformed(kind="nul"), Empty()):
        evidence = changed(fault, large, a_try(chance=always(0)))[1]
        assert all(len(json.dumps(value)) <= MAX_EVIDENCE * 2 for value in evidence.values())


def test_too_deep_json_is_unchanged():
    deep = Reply(JSON_TYPE, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}")
    for fault in (Partial(), SchemaDrift(), Malformed()):
        assert fault.act(a_try()).reply(deep) is not None
