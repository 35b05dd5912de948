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


def after(fault, scripted, form, *earlier, chance=None):
    reply, evidence = changed(fault, form.reply(scripted), model_try(form, *earlier, chance=chance))
    assert (reply.stream_form is not None) == form.stream and evidence["original"] == scripted.as_json()
    result = form.read(reply)
    assert evidence["changed"] == result.as_json()
    return result


@FORM
@pytest.mark.parametrize("kind", ["cut", "trailing_comma", "single_quotes", "words"])
def test_malformed_arguments_are_not_json(form, kind):
    if form.dialect == "ollama":  # whose arguments are an object: its server refuses any other
        assert why_not(MalformedToolCall(kind=kind), form.reply(CALL), model_try(form)) == "not_in_dialect"
        return
    result = after(MalformedToolCall(kind=kind), CALL, form)
    if form.dialect == "gemini":  # whose API never shows such a call
        assert (result.calls, result.finish) == ((), "MALFORMED_FUNCTION_CALL")
        return
    assert not is_json(result.calls[0].arguments)
    assert result.text == CALL.text and result.calls[0].id == ZURICH.id


@FORM
def test_unknown_tool_is_not_offered(form):
    result = after(UnknownTool(), CALL, form)
    assert result.calls[0].name not in ("get_weather", "calculate", "Report")
    assert result.calls[0].arguments == ZURICH.arguments


@FORM
def test_configured_tool_is_called_unless_offered(form):
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
def test_arguments_are_wrong_as_configured(form, kind, argument, values):
    result = after(WrongArguments(kind=kind, argument=argument), CALL, form, chance=always(0))
    assert result.calls[0].values() == values


def test_wrong_value_comes_from_earlier_call():
    result = after(WrongArguments(argument="days"), CALL, FORMS[0], BERN)
    assert result.calls[0].values() == {"city": "Zurich", "days": 1}


def test_wrong_enum_value_comes_from_same_enum():
    result = after(WrongArguments(argument="status"), FINAL, FORMS[0])
    assert result.calls[0].values()["status"] in ("failed", "unsure")


@FORM
@pytest.mark.parametrize("times", [2, 5])
def test_repeated_call_has_new_ids(form, times):
    result = after(RepeatedToolCall(times=times), CALLS, form, chance=always(0))
    assert [call.values()["city"] for call in result.calls] == ["Zurich"] * times + ["Bern"]
    assert len({call.id for call in result.calls}) == times + 1


@FORM
def test_loop_asks_again_for_last_call(form):
    result = after(InfiniteLoop(), TEXT, form, ZURICH, BERN)
    assert (result.calls[0].name, result.calls[0].values()) == ("get_weather", BERN.values())
    assert result.calls[0].id not in ("c1", "c2") and result.finish == "tool_calls"


@FORM
def test_conversation_without_call_starts_no_loop(form):
    assert why_not(InfiniteLoop(), form.reply(CALL), model_try(form)) == "nothing_to_change"


@FORM
@pytest.mark.parametrize("kind", [MalformedToolCall, UnknownTool, WrongArguments, RepeatedToolCall])
def test_reply_without_call_is_unchanged(form, kind):
    assert why_not(kind(), form.reply(TEXT), model_try(form)) == "nothing_to_change"
