"""Values of reports and answers in prose against the oracle."""

import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.value import judge_answer, judge_value

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
def test_value_axis(slots, values, result):
    assert axis(slots, *values) == result


@pytest.mark.parametrize("values", [[12, 11.3], [11.3, 12], ["10", "11.3"], ["11.3 °C", "10 °C"]])
def test_hedged_value_is_not_right(values):
    assert axis([PARIS], *values) == "wrong"


def test_ambiguous_value_is_unreadable():
    assert axis([PARIS], v(9, None), v(11.3, "celsius")) == "unreadable"
    assert axis([{"number": 36}], 36, 240) == "unreadable"
    assert axis([{"text": "Canberra"}], "Canberra", "Australia") == "unreadable"


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ([11.3, "bonjour", 42], "right"),
        (["bonjour", 11.3, 42], "right"),  # types are distinguished
        ([42, "bonjour", 11.3], "unreadable"),  # numbers are taken in order
        ([11.3, "bonjour"], "wrong"),
        ([11.3, "bonjour", 11.3], "wrong"),
    ],
)
def test_several_slots_are_filled_in_order(values, result):
    assert axis([PARIS, {"text": "bonjour"}, {"number": 42}], *values) == result


def test_value_serves_one_slot_only():
    assert axis([{"number": 5}, {"number": 5}], 5) == "wrong"
    assert axis([{"number": 5}, {"number": 5}], 5, 5) == "right"


def test_no_value_is_none():
    assert judge_value(parse_expect({"values": [PARIS]}).values, [{}]).axis == "none"


TEMPERATURE = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}
OBJECT = {"json": {"city": "Paris", "temperature": 8.4, "rain": False, "days": [1, {"of": 3}], "wind": None}}
RIGHT = '{"city": "paris", "temperature": 8.40, "rain": false, "days": [1, {"of": 3}], "wind": null, "x": 1}'


def nested(depth):
    return [nested(depth - 1)] if depth else 1


def says(rule, answer):
    oracle = parse_expect({"answer": rule})
    return judge_answer(oracle.answer, answer).axis


@pytest.mark.parametrize(
    ("rule", "answer", "axis"),
    [
        (TEMPERATURE, "It is 8.4 °C in Paris.", "right"),
        (TEMPERATURE, "It is 47.12 °F in Paris.", "right"),
        (TEMPERATURE, "It is 12 °C in Paris.", "wrong"),
        (TEMPERATURE, "", "none"),
        ({"contains": "Canberra"}, "The capital is **Canberra**.", "right"),
        ({"contains": ["Team lunch", "Design review"]}, "Team lunch and Design review", "right"),
        ({"contains": ["Team lunch", "Design review"]}, "Only Team lunch", "wrong"),
        ("Canberra", "Canberra", "right"),
        ({"matches": r"(?i)\bcanberra\b"}, "It is CANBERRA.", "right"),
        ({"matches": "^Canberra$"}, "It is Canberra.", "none"),
        ({"any_of": ["Bonjour", "Salut"]}, "Salut!", "right"),
        ({"any_of": [TEMPERATURE, {"matches": "eight"}]}, "eight point four", "right"),
        ({"any_of": ["Bonjour", {"matches": "^Salut"}]}, "Hola", "wrong"),
        ({"not_contains": "IT"}, "I did it.", "right"),
        ({"not_contains": ["IT", "HR"]}, "Ask HR.", "wrong"),
        ({"not_matches": r"\d{16}"}, "Your card ends in 1234.", "right"),
        ({"not_matches": r"\d{16}"}, "It is 1234567812345678.", "wrong"),
        ({"all_of": ["Canberra", {"not_contains": "Sydney"}]}, "It is Canberra.", "right"),
        ({"all_of": ["Canberra", {"not_contains": "Sydney"}]}, "It is Canberra, not Sydney.", "wrong"),
        ({"all_of": ["Canberra", {"not_contains": "Sydney"}]}, "It is Perth.", "wrong"),
    ],
)
def test_answer_rules(rule, answer, axis):
    assert says(rule, answer) == axis


@pytest.mark.parametrize(
    ("answer", "axis"),
    [
        (RIGHT, "right"),
        (f"Here it is:\n```json\n{RIGHT}\n```\nAnything else?", "right"),
        (f"```\n{RIGHT}\n```\n```json\n{RIGHT.replace('8.40', '9')}\n```", "wrong"),
        (f'```json\n{{"note": "no key of it"}}\n```\n```json\n{RIGHT}\n```', "right"),
        (f"It is ```json {RIGHT}```, I think", "right"),
        (f"```json\n{RIGHT}\n", "right"),
        (f"Here: {RIGHT}", "none"),
        (RIGHT.replace("8.40", "9" * 5000), "none"),
        (RIGHT.replace("8.40", '"8.4"'), "right"),
        (RIGHT.replace("8.40", "8.9"), "wrong"),
        (RIGHT.replace("false", "0"), "wrong"),
        (RIGHT.replace("null", "false"), "wrong"),
        (RIGHT.replace('"of": 3', '"of": 4'), "wrong"),
        (RIGHT.replace("[1, ", "[1, 1, "), "wrong"),
        (RIGHT.replace("days", "nights"), "none"),
        ('{"temperature": ' + "[" * 5000, "none"),
        ("[8.4]", "none"),
        ("It is 8.4 °C", "none"),
    ],
)
def test_answer_in_json(answer, axis):
    assert says(OBJECT, answer) == axis


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"matches": "(a"}, "expect.answer.matches: is not an RE2 pattern: missing )"),
        ({"matches": "(?<=a)b"}, "expect.answer.matches: is not an RE2 pattern"),
        ({"matchs": "a"}, "expect.answer.matchs: unknown key; did you mean 'matches'?"),
        ({"contains": "a", "number": 3}, "needs exactly one of contains, not_contains, matches"),
        ({"not_matches": "(a"}, "expect.answer.not_matches: is not an RE2 pattern: missing )"),
        ({"all_of": ["a", {"not_contain": "b"}]}, "expect.answer.all_of[1].not_contain: unknown key"),
        ({"unit": "m"}, "expect.answer: needs exactly one of"),
        ({"contains": "a", "unit": "m"}, "expect.answer: unit and tolerance go with a number"),
        ({"contains": ""}, "expect.answer.contains[0]: "),
        ({"any_of": []}, "expect.answer.any_of: "),
        ({"any_of": ["a", {"nmber": 3}]}, "expect.answer.any_of[1].nmber: unknown key; did you mean"),
        ({"number": float("nan")}, "expect.answer.number: must be a finite number"),
        ({"json": {"a": [float("inf")]}}, "expect.answer.json: must be a finite number"),
        ({"json": {"a": nested(20)}}, "expect.answer.json: is nested deeper than 20"),
        (3, "expect.answer: "),
    ],
)  # fmt: skip
def test_invalid_answer_rules(rule, message):
    with pytest.raises(ValueError, match="expect") as caught:
        parse_expect({"answer": rule})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "rule", [{"matches": "(a*)*b"}, {"json": {"a": 1}}, {"any_of": [{"matches": "(x+x+)+y"}]}]
)
def test_hostile_answer_is_quick(rule):
    assert says(rule, "a" * 50_000 + "```\n" * 20_000 + "\ud800" + "x" * 50_000) == "none"


@pytest.mark.parametrize("value", [1083, 1083.0])
def test_whole_feet_are_rounded_metres(value):
    assert axis([{"number": 330, "unit": "m"}], v(value, "ft")) == "right"


def test_answer_rule_takes_a_day_and_a_time():
    assert (
        judge_answer(parse_expect({"answer": {"date": "2026-03-12"}}).answer, "On 12 March 2026.").axis
        == "right"
    )
    assert (
        judge_answer(parse_expect({"answer": {"time": "14:30"}}).answer, "At half past three.").axis
        == "wrong"
    )


@pytest.mark.parametrize(
    ("rule", "answer", "result"),
    [
        ({"number": 0}, "null", "wrong"),
        ({"number": 12}, "There are a dozen.", "right"),
        ({"number": 12}, "There are half a dozen.", "wrong"),
        ({"time": "16:15"}, "4:15, bring your card", "unreadable"),
        ({"time": "16:15"}, "04:15", "wrong"),
        ({"time": "16:15"}, "4:15 in the morning", "wrong"),
    ],
)
def test_paraphrased_answer(rule, answer, result):
    verdict = judge_answer(parse_expect({"answer": rule}).answer, answer).axis
    assert verdict == result or {verdict, result} == {"none", "wrong"}
