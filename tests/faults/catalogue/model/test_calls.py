"""Faults of tool calls, in both dialects, as JSON and as event streams."""

from __future__ import annotations

import pytest

from tests.dialects.forms import BERN, CALL, CALLS, FINAL, FORMS, TEXT, ZURICH
from tests.faults.tries import always, changed, model_try, why_not
from wirefault.dialects.json_values import is_json
from wirefault.faults.catalogue.model.calls import (
    InfiniteLoop,
    MalformedToolCall,
    RepeatedToolCall,
    UnknownTool,
    WrongArguments,
)

FORM = pytest.mark.parametrize("form", FORMS, ids=str)


def after(fault, said, form, *earlier, chance=None):
    reply, evidence = changed(fault, form.reply(said), model_try(form, *earlier, chance=chance))
    assert reply.is_event_stream == form.stream and evidence["original"] == said.as_json()
    found = form.read(reply)
    assert evidence["changed"] == found.as_json()
    return found


@FORM
@pytest.mark.parametrize("kind", ["cut", "trailing_comma", "single_quotes", "words"])
def test_malformed_arguments_are_no_json(form, kind):
    found = after(MalformedToolCall(kind=kind), CALL, form)
    if form.dialect == "gemini":  # whose API never shows such a call
        assert (found.calls, found.finish) == ((), "MALFORMED_FUNCTION_CALL")
        return
    assert not is_json(found.calls[0].arguments)
    assert found.text == CALL.text and found.calls[0].id == ZURICH.id


@FORM
def test_an_unknown_tool_is_none_of_those_offered(form):
    found = after(UnknownTool(), CALL, form)
    assert found.calls[0].name not in ("get_weather", "calculate", "Report")
    assert found.calls[0].arguments == ZURICH.arguments


@FORM
def test_a_tool_by_name_is_asked_for_unless_it_is_offered(form):
    assert after(UnknownTool(tool="rm"), CALL, form).calls[0].name == "rm"
    assert why_not(UnknownTool(tool="calculate"), form.reply(CALL), model_try(form)) == "nothing_to_change"


@FORM
@pytest.mark.parametrize(
    ("kind", "argument", "values"),
    [
        ("value", "days", {"city": "Zurich", "days": 3}),
        ("value", "city", {"city": "Bern", "days": 2}),
        ("type", "days", {"city": "Zurich", "days": "2"}),
        ("type", "city", {"city": ["Zurich"], "days": 2}),
        ("missing", "city", {"days": 2}),
        ("extra", None, {"city": "Zurich", "days": 2, "options": "default"}),
    ],
)
def test_arguments_are_wrong_as_asked(form, kind, argument, values):
    found = after(WrongArguments(kind=kind, argument=argument), CALL, form, chance=always(0))
    assert found.calls[0].values() == values


def test_a_wrong_value_is_one_that_the_tool_was_called_with_before():
    found = after(WrongArguments(argument="days"), CALL, FORMS[0], BERN)
    assert found.calls[0].values() == {"city": "Zurich", "days": 1}


def test_a_wrong_value_of_an_enumeration_is_another_of_it():
    found = after(WrongArguments(argument="status"), FINAL, FORMS[0])
    assert found.calls[0].values()["status"] in ("failed", "unsure")


@FORM
@pytest.mark.parametrize("times", [2, 5])
def test_a_repeated_call_is_the_same_with_ids_of_its_own(form, times):
    found = after(RepeatedToolCall(times=times), CALLS, form, chance=always(0))
    assert [call.values()["city"] for call in found.calls] == ["Zurich"] * times + ["Bern"]
    assert len({call.id for call in found.calls}) == times + 1


@FORM
def test_a_loop_asks_again_for_the_last_call(form):
    found = after(InfiniteLoop(), TEXT, form, ZURICH, BERN)
    assert (found.calls[0].name, found.calls[0].values()) == ("get_weather", BERN.values())
    assert found.calls[0].id not in ("c1", "c2") and found.finish == "tool_calls"


@FORM
def test_a_conversation_without_a_call_starts_no_loop(form):
    assert why_not(InfiniteLoop(), form.reply(CALL), model_try(form)) == "nothing_to_change"


@FORM
@pytest.mark.parametrize("kind", [MalformedToolCall, UnknownTool, WrongArguments, RepeatedToolCall])
def test_a_reply_without_a_call_is_left_alone(form, kind):
    assert why_not(kind(), form.reply(TEXT), model_try(form)) == "nothing_to_change"
