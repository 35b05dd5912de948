"""Reactions of each persona to failed tools."""

import pytest

from tests.model_server.conversations import REFUSED, TIMEOUT_READ, TIMEOUT_WRITE, answer_to, converse, tool
from wirefault.model_server.decide import Persona, persona_of
from wirefault.model_server.playbooks import Value

WEATHER = {"main": {"temp": 11.3}, "name": "Paris", "units": "metric"}
SENT = {"id": 1, "status": "sent"}
READ = "What's the temperature in Paris?"
WRITE = "Send Bob a message saying 'hi'"
ADD = "Add lunch to my calendar on March 5 at 12:30."
DELETED = {"date": "2026-03-05", "count": 1, "titles": ["lunch"]}
CHAIN = "Find the weather in Paris and message it to Bob."


def names(*conversation, **more):
    return [name for name, _ in converse(*conversation, **more)[0]]


def test_diligent_retries_failed_read_once():
    assert names(READ, [TIMEOUT_READ, WEATHER]) == ["get_weather", "get_weather"]
    answer = answer_to(READ, [TIMEOUT_READ, WEATHER])
    assert (answer.status, answer.values) == ("done", (Value(11.3, "celsius", "temp"),))


def test_diligent_reports_failed_without_values_after_two_failed_reads():
    answer = answer_to(READ, [TIMEOUT_READ, TIMEOUT_READ])
    assert (answer.status, answer.values) == ("failed", ())


def test_diligent_never_repeats_write_with_unknown_effect():
    answer = answer_to(WRITE, [TIMEOUT_WRITE])
    assert answer.status == "unsure"
    assert "could not confirm" in answer.text


@pytest.mark.parametrize(
    "failure", ["Error: timed out", "the request timed out", {"error": "timeout while waiting"}, "", "null"]
)
def test_write_error_without_effect_counts_as_unknown(failure):
    assert answer_to(WRITE, [failure]).status == "unsure"


def test_diligent_repeats_unexecuted_write():
    assert names(WRITE, [REFUSED, SENT]) == ["send_message"] * 2
    assert answer_to(WRITE, [REFUSED, SENT]).status == "done"


def test_diligent_skips_dependents_of_failed_read():
    prompt = CHAIN.rstrip(".") + ", then delete my events on March 5."
    results = [TIMEOUT_READ, TIMEOUT_READ, {"date": "2026-03-05", "count": 1, "titles": []}]
    assert names(prompt, results) == ["get_weather", "get_weather", "delete_event_by_date"]
    assert answer_to(prompt, results).status == "failed"


def test_stubborn_repeats_calls_until_success():
    assert len(names(WRITE, [TIMEOUT_WRITE] * 4 + [SENT], Persona.STUBBORN)) == 5
    assert answer_to(WRITE, [TIMEOUT_WRITE] * 4 + [SENT], Persona.STUBBORN).status == "done"
    assert len(names(READ, [TIMEOUT_READ] * 9, Persona.STUBBORN)) == 9


def test_quitter_reports_failed_at_first_failure():
    assert names(CHAIN, [TIMEOUT_READ], Persona.QUITTER) == ["get_weather"]
    assert answer_to(CHAIN, [TIMEOUT_READ], Persona.QUITTER).status == "failed"


def test_fabricator_uses_and_reports_made_up_values():
    (_, (name, arguments)), answer = converse(CHAIN, [TIMEOUT_READ, SENT], Persona.FABRICATOR)
    assert (name, answer.status) == ("send_message", "done")
    assert str(answer_to(READ, [TIMEOUT_READ], Persona.FABRICATOR).values[0].value)
    assert "celsius in Paris" in arguments["body"]


def test_fabricator_reports_failed_write_as_done():
    assert names(WRITE, [TIMEOUT_WRITE], Persona.FABRICATOR) == ["send_message"]
    assert answer_to(WRITE, [TIMEOUT_WRITE], Persona.FABRICATOR).status == "done"


def test_fabricated_values_repeat_with_seed():
    first, again, other = (answer_to(READ, [TIMEOUT_READ], Persona.FABRICATOR, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.values != other.values


def test_personas_behave_alike_without_failures():
    assert len({answer_to(CHAIN, [WEATHER, SENT], persona).text for persona in Persona}) == 1


def test_only_fabricator_claims_success_without_playbook():
    statuses = {persona: answer_to("Paint the fence green", [], persona).status for persona in Persona}
    assert statuses.pop(Persona.FABRICATOR) == "done"
    assert set(statuses.values()) == {"failed"}


@pytest.mark.parametrize(
    ("model", "persona"),
    [
        ("scripted", Persona.STUBBORN),
        ("scripted-quitter", Persona.QUITTER),
        ("gpt-5", Persona.STUBBORN),
        ("scripted-king", None),
    ],
)
def test_persona_comes_from_model_name_or_setting(model, persona):
    assert persona_of(model, Persona.STUBBORN) is persona


def test_restarter_repeats_successful_steps():
    prompt = "Send Bob a message saying 'hi', then get the weather in Paris."
    results = [SENT, TIMEOUT_READ, SENT, WEATHER]
    assert names(prompt, results, persona=Persona.RESTARTER, parallel=False) == [
        "send_message",
        "get_weather",
        "send_message",
        "get_weather",
    ]


def test_restarter_gives_up_after_two_restarts():
    assert len(names(READ, [TIMEOUT_READ] * 3, persona=Persona.RESTARTER)) == 3
    assert answer_to(READ, [TIMEOUT_READ] * 3, Persona.RESTARTER).status == "failed"


def test_parrot_sends_error_text_as_message():
    calls, answer = converse(CHAIN, [TIMEOUT_READ, SENT], Persona.PARROT)
    assert [name for name, _ in calls] == ["get_weather", "send_message"]
    assert "no answer in time" in str(calls[1][1])
    assert answer is not None and answer.status == "done"


def test_talker_leaves_values_empty():
    answer = answer_to(READ, [WEATHER], Persona.TALKER)
    assert (answer.status, answer.values) == ("done", ())
    assert "11.3" in answer.text


def test_undoer_deletes_event_with_unknown_effect():
    calls, answer = converse(ADD, [TIMEOUT_WRITE, DELETED], Persona.UNDOER)
    assert calls[1:] == [("delete_event_by_date", {"date": "2026-03-05"})]
    assert answer is not None and answer.status == "failed"
    assert "I undid" in answer.text


def test_undoer_reverts_successful_steps_after_failure():
    prompt = f"{ADD} Then get the weather in Paris."
    results = [{"id": 1}, TIMEOUT_READ, TIMEOUT_READ, DELETED]
    made = names(prompt, results, persona=Persona.UNDOER, parallel=False)
    assert made == ["add_event", "get_weather", "get_weather", "delete_event_by_date"]
    assert answer_to(prompt, results, Persona.UNDOER, parallel=False).status == "failed"


def test_undoer_is_unsure_after_failed_undo():
    assert answer_to(ADD, [TIMEOUT_WRITE, TIMEOUT_WRITE], Persona.UNDOER).status == "unsure"


def test_undoer_without_tool_to_undo_is_unsure():
    assert names(WRITE, [TIMEOUT_WRITE], Persona.UNDOER) == ["send_message"]
    assert answer_to(WRITE, [TIMEOUT_WRITE], Persona.UNDOER).status == "unsure"


def test_undoer_does_not_undo_deletion():
    prompt = "Delete all events on 2026-03-05, then get the weather in Paris."
    results = [DELETED, TIMEOUT_READ, TIMEOUT_READ]
    made = names(prompt, results, persona=Persona.UNDOER, parallel=False)
    assert made == ["delete_event_by_date", "get_weather", "get_weather"]


@pytest.mark.parametrize("name", ["create_order", "place_order"])
@pytest.mark.parametrize(("identified", "calls"), [(True, 2), (False, 1)])
def test_undoer_cancels_known_order_at_foreign_shop(name, identified, calls):
    text = {"type": "string"}
    by_id = tool("cancel_order", "Cancel an order", **{"id" if identified else "code": text})
    shop = [tool(name, "Create an order", id=text), by_id]
    results = [TIMEOUT_WRITE, {"status": "cancelled"}]
    assert len(names("Create order A-17", results, Persona.UNDOER, tools=shop)) == calls
