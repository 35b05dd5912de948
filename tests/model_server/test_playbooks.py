"""Playbooks: understanding of prompts, reading of results, and invalid files."""

import json

import pytest

from tests.model_server.conversations import DECIDE, TIMEOUT_READ, answer_to, converse
from wirefault.core.errors import InputError
from wirefault.model_server.decide import Persona
from wirefault.model_server.playbooks import SHIPPED, load_playbooks

WEATHER = {"main": {"temp": 8.4, "humidity": 50}, "units": "metric"}
SENT = {"id": 1, "status": "sent"}


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        ("Search for information about chaos engineering", "search_web", {"query": "chaos engineering"}),
        (
            "Translate 'Hello, how are you?' to Spanish",
            "translate",
            {"text": "Hello, how are you?", "source_language": "en", "target_language": "es"},
        ),
        ("What events do I have on 2026-03-12?", "get_event", {"date": "2026-03-12"}),
        ("Calculate the result of 15 * 23 + 47", "calculate_expr", {"expression": "15 * 23 + 47"}),
        ("could you please calculate 2 to the power of 10?", "calculate_expr", {"expression": "2 ** 10"}),
        ("what's on my calendar on Friday", "get_event", {"date": "2026-03-06"}),
        ("Clear my calendar for the day after tomorrow", "delete_event_by_date", {"date": "2026-03-04"}),
        ("Tell Bob “it’s late”", "send_message", {"to": "Bob", "body": "it’s late"}),
        (
            "Put dinner with Eva in my calendar on March 20th at 7pm, please",
            "add_event",
            {"title": "dinner with Eva", "date": "2026-03-20", "time": "19:00"},
        ),
    ],
)
def test_sentence_with_slots_becomes_call(prompt, name, arguments):
    assert converse(prompt, [TIMEOUT_READ])[0][0] == (name, arguments)


def test_independent_calls_are_parallel_if_allowed():
    prompt = "What is the temperature in Oslo, Rome and New York?"
    assert [call["city"] for _, call in converse(prompt, [WEATHER] * 3)[0]] == ["Oslo", "Rome", "New York"]
    assert len(converse(prompt, [WEATHER], parallel=False)[0]) == 1
    assert len(converse(prompt, [WEATHER])[0]) == 0  # three at once, and results for one only


def test_then_waits_for_earlier_results():
    calls, answer = converse("Get the weather in Oslo, then send it to Bob.", [WEATHER, SENT])
    assert calls[1] == ("send_message", {"to": "Bob", "body": "It is 8.4 celsius in Oslo."})
    assert answer.values == ()  # a value that was only passed on was not requested


def test_false_tool_result_is_reported():
    lie = {**WEATHER, "main": {"temp": 31.0}}
    assert answer_to("What is the temperature in Oslo?", [lie]).values[0].value == 31.0


def test_result_without_value_is_failure():
    answer = answer_to("What is the temperature in Oslo?", [{"main": {}}] * 2)
    assert answer.status == "failed"
    assert "does not say it" in answer.text


@pytest.mark.parametrize(
    "prompt",
    [
        'Don\'t send Bob a message saying "hi"',
        'If it rains in Oslo, send Bob a message saying "hi"',
        "What is the temperature in Oslo and who is the king?",
        "Translate it to Klingon",
        'Add "Gym" to my calendar on 2026-02-30 at 10:00',
    ],
)
def test_partly_understood_prompt_is_declined(prompt):
    calls, answer = converse(prompt, [SENT] * 3)
    assert (calls, answer.status) == ([], "failed")
    assert "no playbook for this" in answer.text


def test_playbook_needs_its_tool_offered():
    assert answer_to("What is the temperature in Oslo?", [], tools=[]).status == "failed"


def test_answer_is_unchanged_without_tools():
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    messages = [
        {"role": "user", "content": "What is the temperature in Oslo?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps(WEATHER)},
    ]
    answer = DECIDE(messages, [], Persona.DILIGENT, 0)
    assert (answer.status, answer.values[0].value) == ("done", 8.4)


def test_user_playbooks_come_first(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("playbooks:\n  - {ask: ['how tall is {who}'], call: measure, with: {person: '{who}'}}\n")
    steps = load_playbooks(own, SHIPPED).plan("How tall is Ann?", ["measure", "search_web"], None)
    assert [(step.call.name, step.call.arguments) for step in steps] == [("measure", {"person": "Ann"})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("playbooks:\n- {ask: [x], cal: y}", ":2: playbooks[1].cal: no such key; did you mean 'call'?"),
        ("playbooks: [{ask: ['{a:colour}'], call: y}]", "unknown kind of slot 'colour'"),
        ("playbooks: [{ask: ['(a'], call: y}]", "unterminated"),
        ("playbooks: [{ask: [], call: y}]", "ask"),
        ("playbooks: [", ":1: not YAML"),
        ("[]", "must be a mapping with `playbooks`, not []"),
    ],
)
def test_invalid_playbook_error_has_place_and_reason(tmp_path, text, message):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_playbooks(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_missing_playbook_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_playbooks(tmp_path / "nowhere.yaml")


def test_missing_slot_is_empty(tmp_path):
    own = tmp_path / "own.yaml"
    entry = "{ask: ['ring[ at {hour:time}]'], call: ring, with: {at: '{hour}'}, say: 'Rung {hour}.'}"
    own.write_text(f"playbooks: [{entry}]")
    [step] = load_playbooks(own).plan("Ring", ["ring"], None)
    assert step.call.arguments == {"at": ""}
    assert step.read({}).sentence == "Rung."


def test_small_talk_needs_no_tool():
    answer = answer_to("Hello\n there!", [], tools=[])
    assert (answer.status, answer.text) == ("done", "Hello! How can I help you?")
