import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.value import judge_value

PARIS = {"number": 11.3, "unit": "celsius", "tolerance": 0.1}


def axis(slots, *values):
    reported = [value if isinstance(value, dict) else {"value": value, "unit": None} for value in values]
    return judge_value(parse_expect({"values": slots}).values, reported).axis


def v(value, unit):
    return {"value": value, "unit": unit}


@pytest.mark.parametrize(
    ("slots", "values", "result"),
    [
        ([], [5], "not_applicable"),
        ([PARIS], [], "none"),
        ([PARIS], [11.3], "right"),
        ([PARIS], [v(284.45, "K")], "right"),
        ([PARIS], [v(52.34, "°F")], "right"),
        ([PARIS], ["11.3"], "right"),
        ([PARIS], ["11.3 °C"], "right"),
        ([PARIS], [v("11.35", " Degrees  Celsius")], "right"),
        ([PARIS], [12], "wrong"),
        ([PARIS], ["no idea"], "none"),
        ([PARIS], [v(11.3, "km")], "wrong"),
        ([PARIS], [v(80, "%"), v(11.3, "C")], "right"),
        ([{"number": 42}], [42], "right"),
        ([{"number": 42}], [42.01], "wrong"),
        ([{"number": 4200}], [v("4,200", "euros")], "right"),
        ([{"number": 0}], [0], "right"),
        ([{"number": 1}], [True], "none"),
        ([{"text": "bonjour"}], ["“Bonjour!”"], "right"),
        ([{"text": "bonjour"}], ["salut"], "wrong"),
        ([{"text": "bonjour"}], [5], "none"),
        ([{"text": "1984"}], [1984], "right"),
        ([{"text": "1984"}], ["1984"], "right"),
        ([{"any_of": ["a", "b"]}], ["B."], "right"),
        ([{"any_of": [1, 2]}], [2], "right"),
        ([{"any_of": ["two", 2]}], [2], "right"),
        ([{"any_of": ["a", "b"]}], ["c"], "wrong"),
        ([{"text": "oui"}], [None], "none"),
        ([{"text": "oui"}], [["oui"]], "none"),
    ],
)
def test_the_value_axis(slots, values, result):
    assert axis(slots, *values) == result


@pytest.mark.parametrize("values", [[12, 11.3], [11.3, 12], ["10", "11.3"], ["11.3 °C", "10 °C"]])
def test_hedging_with_several_candidates_does_not_pass(values):
    assert axis([PARIS], *values) == "wrong"


def test_a_value_that_may_be_something_else_makes_the_report_unreadable():
    assert axis([PARIS], v(9, None), v(11.3, "celsius")) == "unreadable"
    assert axis([{"number": 36}], 36, 240) == "unreadable"
    assert axis([{"text": "Canberra"}], "Canberra", "Australia") == "unreadable"


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ([11.3, "bonjour", 42], "right"),
        (["bonjour", 11.3, 42], "right"),  # types are kept apart
        ([42, "bonjour", 11.3], "unreadable"),  # numbers are taken in order
        ([11.3, "bonjour"], "wrong"),
        ([11.3, "bonjour", 11.3], "wrong"),
    ],
)
def test_several_slots_are_filled_in_order(values, result):
    assert axis([PARIS, {"text": "bonjour"}, {"number": 42}], *values) == result


def test_a_value_serves_one_slot_only():
    assert axis([{"number": 5}, {"number": 5}], 5) == "wrong"
    assert axis([{"number": 5}, {"number": 5}], 5, 5) == "right"


def test_what_is_not_even_a_value_is_none():
    assert judge_value(parse_expect({"values": [PARIS]}).values, [{}]).axis == "none"
