"""Follow-ups: turns that only an earlier turn of the conversation makes complete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.model_server.conversations import DECIDE, LAB, SYSTEM, TIMEOUT_READ
from wirefault.model_server.decide import Persona
from wirefault.model_server.playbooks import Answer

PARIS = {"main": {"temp": 8.4, "humidity": 50}, "units": "metric", "name": "Paris"}
OSLO_KELVIN = {"main": {"temp": 273.15, "humidity": 50}, "units": "standard", "name": "Oslo"}
PARASITE = {"results": [{"name": "Parasite", "original_name": "Gisaengchung", "year": 2019}]}
EVENTS = {"date": "2026-03-12", "events": [{"title": "Team lunch", "time": "12:00"}]}
HELLO = {"translated_text": "Bonjour", "backend": "offline"}
DONE = {"id": 1, "status": "sent"}
Calls = list[tuple[str, dict[str, Any]]]


def talk(*turns: tuple[str, Sequence[Any]]) -> tuple[Calls, Answer]:
    """Play the turns, each with the results of its calls; return the last turn's calls and answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for number, (text, results) in enumerate(turns):
        messages.append({"role": "user", "content": text})
        left, made = list(results), Calls()
        while not isinstance(decision := DECIDE(messages, LAB, Persona.DILIGENT, 1, True), Answer):
            calls, replies = [], []
            for call in decision:
                made.append((call.name, dict(call.arguments)))
                function = {"name": call.name, "arguments": json.dumps(call.arguments)}
                id = f"c{number}_{len(made)}"
                calls.append({"id": id, "type": "function", "function": function})
                content = json.dumps(left.pop(0))
                replies.append({"role": "tool", "tool_call_id": id, "content": content})
            messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *replies]
        messages.append({"role": "assistant", "content": decision.text})
    return made, decision


TEMPERATURE = ("What is the temperature in Paris?", [PARIS])


@pytest.mark.parametrize(
    ("turns", "call"),
    [
        ([TEMPERATURE, ("And in Fahrenheit?", [])], ("calculate_expr", {"expression": "8.4 * 9 / 5 + 32"})),
        ([TEMPERATURE, ("And in kelvin?", [])], ("get_weather", {"city": "Paris", "units": "standard"})),
        ([TEMPERATURE, ("and in Oslo", [])], ("get_weather", {"city": "Oslo"})),
        ([TEMPERATURE, ("How humid is it there?", [PARIS])], ("get_weather", {"city": "Paris"})),
        (
            [("Find the movie Parasite", [PARASITE]), ("Book it for March 20th at 7pm, please", [])],
            ("add_event", {"title": "Parasite", "date": "2026-03-20", "time": "19:00"}),
        ),
        (
            [TEMPERATURE, ("Hello!", []), ("Send it to Bob.", [])],
            ("send_message", {"to": "Bob", "body": "It is 8.4 celsius in Paris."}),
        ),
        (
            [("What is on my calendar on 12 March 2026?", [EVENTS]), ("Cancel them.", [])],
            ("delete_event_by_date", {"date": "2026-03-12"}),
        ),
        (
            [('Translate "Hello" from English to French', [HELLO]), ("And in German?", [])],
            ("translate", {"text": "Hello", "source_language": "en", "target_language": "de"}),
        ),
        (
            [("What is 12 * 9?", [{"result": 108}]), ("Times 3", [])],
            ("calculate_expr", {"expression": "108 * (3)"}),
        ),
    ],
)
def test_follow_up_takes_slots_from_earlier_turn(turns, call):
    *earlier, (text, _) = turns
    anything = {"result": 1, "translated_text": "Hallo", **PARIS}
    made, answer = talk(*earlier, (text, [anything]))
    assert made == [call] and answer.status == "done"


def test_follow_up_refers_to_latest_call():
    kelvin = ("Give me the temperature in Oslo in kelvin.", [OSLO_KELVIN])
    made, answer = talk(TEMPERATURE, kelvin, ("And in Fahrenheit?", [{"result": 32.0}]))
    assert made == [("calculate_expr", {"expression": "(273.15 - 273.15) * 9 / 5 + 32"})]
    assert [(value.value, value.unit) for value in answer.values] == [(32.0, "fahrenheit")]


@pytest.mark.parametrize("text", ["And in Fahrenheit?", "Book it for 2026-03-20 at 19:30.", "Cancel them"])
@pytest.mark.parametrize("earlier", [[], [("Hello!", [])], [(TEMPERATURE[0], [TIMEOUT_READ, TIMEOUT_READ])]])
def test_follow_up_to_nothing_says_that_it_does_not_know(text, earlier):
    made, answer = talk(*earlier, (text, []))
    assert (made, answer.status) == ([], "failed")
    assert "I do not know what that refers to" in answer.text


def test_pronoun_without_earlier_result_makes_no_call():
    assert talk(("Hello!", []), ("Send it to Bob.", []))[0] == []
