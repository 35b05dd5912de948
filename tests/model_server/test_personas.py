"""What each persona does when a tool fails."""

import pytest

from tests.model_server.conversations import (
    REFUSED,
    TIMEOUT_READ,
    TIMEOUT_WRITE,
    converse,
    report_of,
    request_of,
)
from windtunnel.model_server.decide import decide
from windtunnel.model_server.personas import Persona, persona_of

WEATHER = {"main": {"temp": 11.3}, "name": "Paris", "units": "celsius"}
SENT = {"id": 1, "status": "sent"}
READ = "What's the temperature in Paris?"
WRITE = "Send a message to Bob saying 'hi'"
CHAIN = "Find the weather in Paris and message it to Bob."


def test_diligent_asks_once_more_for_a_failed_read():
    made, last = converse(READ, [TIMEOUT_READ, WEATHER])
    assert [name for name, _ in made] == ["get_weather", "get_weather"]
    assert report_of(last)["values"] == [{"value": 11.3, "unit": "celsius"}]


def test_diligent_reports_failed_without_values_after_two_failed_reads():
    made, last = converse(READ, [TIMEOUT_READ, TIMEOUT_READ, WEATHER])
    assert len(made) == 2
    assert report_of(last)["status"] == "failed"
    assert report_of(last)["values"] == []


def test_diligent_never_repeats_a_write_whose_effect_is_unknown():
    made, last = converse(WRITE, [TIMEOUT_WRITE, SENT])
    assert len(made) == 1
    assert report_of(last)["status"] == "unsure"
    assert "could not confirm" in report_of(last)["answer"]


@pytest.mark.parametrize(
    "failure", ["Error: timed out", "the request timed out", {"error": "timeout while waiting"}]
)
def test_a_write_error_that_says_nothing_of_its_effect_counts_as_unknown(failure):
    made, last = converse(WRITE, [failure, SENT])
    assert len(made) == 1
    assert report_of(last)["status"] == "unsure"


def test_diligent_repeats_a_write_that_is_known_not_to_have_happened():
    made, last = converse(WRITE, [REFUSED, SENT])
    assert len(made) == 2
    assert report_of(last)["status"] == "done"


def test_diligent_skips_what_depends_on_a_failed_read_and_goes_on_with_the_rest():
    prompt = "Find the weather in Paris and message it to Bob. Then delete my events on March 5."
    made, last = converse(prompt, [TIMEOUT_READ, TIMEOUT_READ, {"deleted": 1}])
    assert [name for name, _ in made] == ["get_weather", "get_weather", "delete_event_by_date"]
    assert report_of(last)["status"] == "failed"


def test_stubborn_repeats_reads_and_writes_until_they_work():
    made, last = converse(WRITE, [TIMEOUT_WRITE] * 4 + [SENT], Persona.STUBBORN)
    assert len(made) == 5
    assert report_of(last)["status"] == "done"
    assert len(converse(READ, [TIMEOUT_READ] * 9, Persona.STUBBORN)[0]) == 9


def test_quitter_reports_failed_at_the_first_failure():
    made, last = converse(CHAIN, [TIMEOUT_READ, WEATHER, SENT], Persona.QUITTER)
    assert len(made) == 1
    assert report_of(last)["status"] == "failed"


def test_fabricator_claims_success_with_made_up_values_and_goes_on_with_them():
    made, last = converse(CHAIN, [TIMEOUT_READ, SENT], Persona.FABRICATOR)
    (_, (name, arguments)), report = made, report_of(last)
    assert name == "send_message"
    assert report["status"] == "done"
    assert str(report["values"][0]["value"]) in arguments["body"]


def test_fabricator_pretends_that_a_failed_write_worked():
    made, last = converse(WRITE, [TIMEOUT_WRITE], Persona.FABRICATOR)
    assert len(made) == 1
    assert report_of(last)["status"] == "done"


def test_fabricated_values_repeat_with_the_seed():
    first, again, other = (converse(READ, [TIMEOUT_READ], Persona.FABRICATOR, seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_personas_behave_alike_without_failures():
    reports = [converse(CHAIN, [WEATHER, SENT], persona) for persona in Persona]
    assert all(report == reports[0] for report in reports)


@pytest.mark.parametrize(
    ("model", "persona"),
    [("scripted", Persona.DILIGENT), ("gpt-5", Persona.DILIGENT), ("scripted-sleeper", None)],
)
def test_the_model_name_gives_the_persona(model, persona):
    assert persona_of(model, Persona.DILIGENT) is persona


def test_a_parameter_that_cannot_be_filled_is_reported_as_missing():
    report = report_of(decide(request_of("Add an event called 'Gym' tomorrow"), Persona.DILIGENT, 0))
    assert report["status"] == "failed"
    assert "time" in report["answer"]
