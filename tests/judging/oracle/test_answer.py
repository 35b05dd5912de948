"""Rules of the oracle read answers in prose."""

import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.value import judge_answer

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
    ],
)
def test_what_an_answer_says(rule, answer, axis):
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
def test_an_answer_in_json(answer, axis):
    assert says(OBJECT, answer) == axis


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"matches": "(a"}, "expect.answer.matches: is no RE2 pattern: missing )"),
        ({"matches": "(?<=a)b"}, "expect.answer.matches: is no RE2 pattern"),
        ({"matchs": "a"}, "expect.answer.matchs: unknown key; did you mean 'matches'?"),
        ({"contains": "a", "number": 3}, "needs exactly one of contains, matches, number, json, any_of"),
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
def test_a_mistake_in_a_rule_is_found_when_the_file_is_read(rule, message):
    with pytest.raises(ValueError, match="expect") as caught:
        parse_expect({"answer": rule})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "rule", [{"matches": "(a*)*b"}, {"json": {"a": 1}}, {"any_of": [{"matches": "(x+x+)+y"}]}]
)
def test_a_hostile_answer_takes_no_time(rule):
    assert says(rule, "a" * 50_000 + "```\n" * 20_000 + "\ud800" + "x" * 50_000) == "none"
