import re

import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.wiring.links import Links, lab_links

MOMENTS = {"date": "2026-03-12", "time": "14:30"}


def test_empty_oracle():
    oracle = parse_expect({})
    assert (oracle.effects, oracle.values, oracle.done_if_text) == ([], [], None)


def test_full_oracle():
    oracle = parse_expect(
        {
            "effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": {"contains": "hi"}}}],
            "values": [{"number": 11.3, "unit": "celsius", "tolerance": 0.1}, {"any_of": ["a", 2]}],
            "done_if_text": "Done.",
        }
    )
    assert oracle.effects[0].fields["to"].equals == "Bob"
    assert oracle.effects[0].fields["body"].contains == ["hi"]
    assert oracle.values[1].options == ["a", 2]


def test_plain_value_is_short_for_number_or_text():
    plain = parse_expect({"values": [2.25, "Paris"]})
    assert plain == parse_expect({"values": [{"number": 2.25}, {"text": "Paris"}]})


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ({"effect": []}, "expect.effect: unknown key; did you mean 'effects'?"),
        ({"values": {"number": 3}}, "expect.values: Input should be a valid list"),
        (
            {"values": [None]},
            "expect.values[0]: must be a number, a text, or an object such as {",
        ),
        ({"values": [True]}, "expect.values[0]: must be a number, a text"),
        (
            {"requests": [{"link": "shop", "method": "POST", "path": "orders"}]},
            "expect.requests[0].path: must start with / and have no query, such as /orders, not 'orders'",
        ),
        ({"values": [{"nmber": 3}]}, "expect.values[0].nmber: unknown key; did you mean 'number'?"),
        ({"values": [{"number": "3"}]}, "expect.values[0].number: must be a number"),
        ({"values": [{"number": True}]}, "expect.values[0].number: must be a number"),
        ({"values": [{"number": float("nan")}]}, "expect.values[0].number: must be a finite number"),
        ({"values": [{"number": 1, "text": "a"}]}, "expect.values[0]: needs exactly one of number, text"),
        ({"values": [{}]}, "expect.values[0]: needs exactly one of"),
        ({"values": [{"any_of": []}]}, "expect.values[0].any_of: "),
        ({"values": [{"text": "a", "unit": "m"}]}, "expect.values[0]: unit and tolerance go with a number"),
        ({"values": [{"number": 1, "tolerance": -1}]}, "expect.values[0].tolerance: "),
        ({"effects": [{"kind": "message_send"}]}, "did you mean 'message_sent'?"),
        ({"effects": [{"kind": "message_sent", "fields": {"bod": 1}}]}, "has no field 'bod'; did you mean"),
        (
            {"effects": [{"kind": "message_sent", "fields": {"to": {"contain": "B"}}}]},
            "expect.effects[0].fields.to.contain: unknown key; did you mean 'contains'?",
        ),
        ({"effects": [{"fields": {}}]}, "expect.effects[0].kind: Field required"),
        ({"done_if_text": ""}, "expect.done_if_text: "),
        (
            {"values": [{"number": 1, "unit": "metrs"}]},
            "expect.values[0].unit: unknown unit 'metrs'; did you mean 'metres'?",
        ),
        ({"values": [{"date": "2026-02-30"}]}, "expect.values[0].date: '2026-02-30' is not a date"),
        ({"values": [{"date": "12/03/2026"}]}, "may be 2026-03-12 or 2026-12-03"),
        ({"values": [{"date": "12 March"}]}, "has no year"),
        ({"values": [{"time": "25:00"}]}, "expect.values[0].time: '25:00' is not a time of day"),
        (
            {"effects": [{"kind": "event_created", "fields": {"date": "12 Marhc 2026"}}]},
            "expect.effects[0].fields.date.date: '12 Marhc 2026' is not a date",
        ),
        (
            {"effects": [{"kind": "event_created", "fields": {"time": "25:00"}}]},
            "'25:00' is not a time of day",
        ),
        (
            {"effects": [{"kind": "event_created", "fields": {"time": {"any_of": ["noonish"]}}}]},
            "'noonish' is not a time",
        ),
    ],
)
def test_error_names_path_and_nearest_name(expect, message):
    with pytest.raises(ValueError, match="expect") as caught:
        parse_expect(expect)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_kind_of_side_effect_can_be_expected_with_all_its_fields():
    for kind, fields in lab_links().effect_fields.items():
        values = dict.fromkeys(fields, "x") | {name: MOMENTS[name] for name in fields if name in MOMENTS}
        parse_expect({"effects": [{"kind": kind, "fields": values}]})


@pytest.mark.parametrize(
    ("link", "method", "problem"),
    [
        ("port_9000", "POST", ""),
        ("openai", "DELETE", ""),
        ("localhost:9000", "POST", "requests[0].link: name the link, not the server: port_9000"),
        ("port_9000", "GET", "requests[0].method: GET is never a write of a link that is found"),
    ],
)
def test_oracle_may_name_a_link_that_is_found_later(link: str, method: str, problem: str) -> None:
    expect = {"requests": [{"link": link, "method": method, "path": "/orders"}]}
    links = Links((), grows=True)
    if not problem:
        assert parse_expect(expect, links).requests
        with pytest.raises(ValueError, match="unknown link"):
            parse_expect(expect, Links(()))
        return
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_expect(expect, links)
