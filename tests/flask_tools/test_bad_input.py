"""Every endpoint, every kind of bad input: a 4xx in JSON with a reason, and nothing done."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples

JSON = {"Content-Type": "application/json"}
BODIES = [
    ("calendar", "/events", {"title": "Lunch", "date": "2026-03-12", "time": "12:30"}),
    ("calculator", "/calc", {"expression": "1 + 1"}),
    ("message", "/message", {"to": "Bob", "body": "hi"}),
    ("translator", "/translate", {"text": "hello", "source_language": "en", "target_language": "fr"}),
]
QUERIES = [
    ("search", "GET", "/serp", "q"),
    ("weather", "GET", "/weather", "q"),
    ("movie", "GET", "/movie", "query"),
    ("calendar", "GET", "/events", "date"),
    ("calendar", "DELETE", "/events", "date"),
]
FIELDS = [(*body, name) for body in BODIES for name in body[2]]
BAD_TEXT = [
    None,
    "",
    "   ",
    5,
    1.5,
    True,
    [],
    ["a"],
    {},
    {"a": 1},
    "x" * 6000,
    "a\x00b",
    "\ud800",
    "\x1b[31m",
]


def refused(answer, *statuses):
    error = answer.json()["error"]
    assert answer.status_code in (statuses or (400,)), answer.text
    assert set(error) == {"code", "message"} and len(error["message"]) > 10
    assert answer.headers["Content-Type"] == "application/json"
    return error


@pytest.mark.parametrize(("link", "path", "good", "name"), FIELDS)
@pytest.mark.parametrize("value", BAD_TEXT, ids=lambda value: ascii(value)[:20])
def test_invalid_text_field_is_refused_by_name(world, link, path, good, name, value):
    error = refused(
        world.ask(link, "POST", path, key="k", data=json.dumps(good | {name: value}), headers=JSON)
    )
    assert name in error["message"]
    assert world.effects() == []


@pytest.mark.parametrize(("link", "path", "good", "name"), FIELDS)
def test_missing_field_is_refused_by_name(world, link, path, good, name):
    rest = {other: value for other, value in good.items() if other != name}
    error = refused(world.ask(link, "POST", path, json=rest))
    assert (error["code"], name in error["message"]) == ("missing_value", True)


@pytest.mark.parametrize(("link", "path", "good"), BODIES)
@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "not_json"),
        (b"{", 400, "not_json"),
        (b"[" * 60_000, 400, "not_json"),
        (b'{"a": NaN}', 400, "not_json"),
        (b"1" * 5000, 400, "not_json"),
        (b'{"a": "\xff\xfe"}', 400, "bad_encoding"),
        ('{"a": "é"}'.encode("utf-16"), 400, "bad_encoding"),
        (b"null", 400, "bad_value"),
        (b'"text"', 400, "bad_value"),
        (b"[]", 400, "bad_value"),
        (b"{}", 400, "missing_value"),
        (b'{"unknown": 1}', 400, "unknown_field"),
        (b" " * 70_000, 413, "payload_too_large"),
        (b" " * 5_000_000, 413, "payload_too_large"),
    ],
    ids=lambda value: ascii(value)[:16],
)
def test_body_other_than_json_object_is_refused(world, link, path, good, raw, status, code):
    assert refused(world.ask(link, "POST", path, data=raw, headers=JSON), status)["code"] == code


@pytest.mark.parametrize(("link", "path", "good"), BODIES)
def test_repeated_or_unknown_field_is_refused(world, link, path, good):
    name = next(iter(good))
    twice = json.dumps(good)[:-1] + f', "{name}": "again"}}'
    assert refused(world.ask(link, "POST", path, data=twice, headers=JSON))["code"] == "repeated_field"
    assert refused(world.ask(link, "POST", path, json=good | {"key": "x"}))["code"] == "unknown_field"
    assert refused(world.ask(link, "POST", path + "?q=1", json=good))["code"] == "unknown_parameter"


@pytest.mark.parametrize(("link", "path", "good"), BODIES)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_media_type_is_refused(world, link, path, good, kind):
    answer = world.ask(link, "POST", path, data=json.dumps(good), headers={"Content-Type": kind})
    assert refused(answer, 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(("link", "method", "path", "name"), QUERIES)
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("{}=", "bad_value"),
        ("{}=%20%20", "bad_value"),
        ("{}", "bad_value"),
        ("{}=%00", "bad_value"),
        ("{}=%FF", "bad_encoding"),
        ("{}=a&{}=b", "repeated_parameter"),
        ("{}=a&extra=1", "unknown_parameter"),
        ("{}=" + "x" * 1000, "bad_value"),
        ("&".join("{}=a" for _ in range(50)), "bad_value"),
    ],
    ids=lambda value: str(value)[:16],
)
def test_bad_query_is_refused(world, link, method, path, name, query, code):
    answer = world.ask(link, method, f"{path}?{query.replace('{}', name)}")
    assert refused(answer)["code"] == code


@pytest.mark.parametrize(
    ("link", "method", "path"),
    [
        ("search", "GET", "/serp"),
        ("weather", "GET", "/weather"),
        ("movie", "GET", "/movie"),
        ("calendar", "DELETE", "/events"),
    ],
)
def test_missing_parameter_is_refused(world, link, method, path):
    assert refused(world.ask(link, method, path))["code"] == "missing_value"


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("weather", "/weather?q=Paris&units=celsius"),
        ("weather", "/weather?q=Paris&units="),
        ("movie", "/movie?query=a&page=0"),
        ("movie", "/movie?query=a&page=-1"),
        ("movie", "/movie?query=a&page=1.5"),
        ("movie", "/movie?query=a&page=%D9%A1"),
        ("movie", "/movie?query=a&page=99999999999999999999"),
        ("movie", "/movie?query=a&per_page=0"),
        ("movie", "/movie?query=a&per_page=51"),
        ("movie", "/movie?query=a&language=klingon"),
        ("movie", "/movie?query=a&language="),
        ("translator", "/backends/probe?backend=babelfish"),
    ],
)
def test_unknown_value_is_refused(world, link, path):
    assert refused(world.ask(link, "GET", path))["code"] == "bad_value"


@pytest.mark.parametrize("name", ["", "x" * 201, "tab\there"])
@pytest.mark.parametrize(
    ("link", "path"), [("calendar", "/events"), ("message", "/inbox"), ("message", "/sent")]
)
def test_malformed_world_is_refused(lab, link, path, name):
    answer = lab.ask(link, "GET", path, headers={"Wirefault-World": name})
    assert refused(answer)["code"] == "bad_world"


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_malformed_idempotency_key_is_refused(world, key):
    answer = world.ask("message", "POST", "/message", json=BODIES[2][2], headers={"Idempotency-Key": key})
    assert refused(answer)["code"] == "bad_idempotency_key"
    assert world.effects() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(60), deadline=None)
@given(index=st.integers(0, len(FIELDS) - 1), value=json_values)
def test_arbitrary_json_fields_get_json_below_500(lab, index, value):
    link, path, good, name = FIELDS[index]
    answer = lab.ask(link, "POST", path, data=json.dumps(good | {name: value}), headers=JSON)
    assert answer.status_code < 500 and answer.json()


@settings(max_examples=examples(60), deadline=None)
@given(index=st.integers(0, len(QUERIES) - 1), value=st.text(max_size=50) | st.binary(max_size=50))
def test_arbitrary_parameters_get_json_below_500(lab, index, value):
    link, method, path, name = QUERIES[index]
    value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    answer = lab.ask(link, method, path, params={name: value})
    assert answer.status_code < 500 and answer.json()
