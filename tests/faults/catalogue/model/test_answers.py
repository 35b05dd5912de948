"""Faults of the model's answer, in both dialects, as JSON and as event streams."""

from __future__ import annotations

import pytest

from tests.dialects.forms import ANSWER, BERN, CALL, CALLS, FINAL, FORMS, TEXT, USER, ZURICH
from tests.faults.catalogue.model.test_calls import after
from tests.faults.tries import always, model_try, why_not
from wirefault.dialects.base import ModelReply, ToolCall
from wirefault.dialects.json_values import compact
from wirefault.faults.catalogue.model.answers import (
    EmptyAnswer,
    Hallucination,
    IncorrectReasoning,
    OffTopic,
    RefusingProgress,
    StuckPattern,
)

FORM = pytest.mark.parametrize("form", FORMS, ids=str)


def report(answer, **more):
    return ModelReply(
        "", (ToolCall("Report", compact({**ANSWER, "answer": answer, **more}), "c3"),), "tool_calls"
    )


@FORM
@pytest.mark.parametrize("original", [TEXT, CALL, FINAL], ids=["text", "call", "final"])
def test_empty_answer_is_empty(form, original):
    assert after(EmptyAnswer(), original, form) == ModelReply()


@FORM
def test_empty_answer_cannot_be_emptied(form):
    assert why_not(EmptyAnswer(), form.reply(ModelReply()), model_try(form)) == "nothing_to_change"


@FORM
def test_fabricated_figure_in_answer(form):
    result = after(Hallucination(), TEXT, form, chance=always(0)).text
    assert result == TEXT.text.replace("21.5", "22.6")


@FORM
def test_fabricated_figure_in_every_report_field(form):
    values = after(Hallucination(), FINAL, form, chance=always(0)).calls[0].values()
    assert values == {
        **ANSWER,
        "answer": "It is 22.6 degrees.",
        "values": [{"value": 22.6, "unit": "celsius"}],
    }


@FORM
def test_answer_without_figure_claims_unused_tool(form):
    original = report("It is warm.", values=[])
    values = after(Hallucination(), original, form, ZURICH).calls[0].values()
    assert values["answer"] == "It is warm. I have checked this with calculate."


@FORM
def test_report_claims_calls_as_done(form):
    result = after(Hallucination(), CALLS, form)
    assert [call.name for call in result.calls] == ["Report"]
    values = result.calls[0].values()
    assert values["status"] == "done" and "Zurich" in values["answer"] and "Bern" in values["answer"]


@FORM
@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("Zurich is warmer.", "Zurich is not warmer."),
        ("It is not raining.", "It is raining."),
        ("Yes, you can.", "No, you can."),
        ("No rain is expected.", "No rain is not expected."),
        ("Between 12 and 15.", "Between 15 and 12."),
    ],
)
def test_conclusion_is_inverted(form, answer, wrong):
    assert after(IncorrectReasoning(), ModelReply(answer), form, chance=always(0)).text == wrong
    assert after(IncorrectReasoning(), report(answer), form, chance=always(0)) == report(wrong)


@FORM
def test_empty_answer_has_no_conclusion(form):
    assert why_not(IncorrectReasoning(), form.reply(CALL), model_try(form)) == "nothing_to_change"
    assert why_not(Hallucination(kind="figure"), form.reply(CALL), model_try(form)) == "nothing_to_change"


@FORM
def test_off_topic_reports_about_unrequested_tool(form):
    values = after(OffTopic(), FINAL, form, ZURICH).calls[0].values()
    assert values == {
        "status": "done",
        "answer": "Let me tell you about calculate. Evaluates an arithmetic expression.",
    }


def test_off_topic_without_tools_is_text():
    reply = OffTopic().act(model_try(FORMS[0], tools=False)).reply(FORMS[0].reply(TEXT)).reply
    assert "mild" in FORMS[0].read(reply).text


@FORM
def test_stuck_model_considers_step_without_taking_it(form):
    result = after(StuckPattern(), CALLS, form)
    assert not result.calls and "Bern" in result.text and result.finish == "stop"
    assert USER in after(StuckPattern(), TEXT, form).text


@FORM
@pytest.mark.parametrize(("kind", "words"), [("asks", "Shall I go on?"), ("refuses", "I am not able")])
def test_progress_is_refused_with_step_named(form, kind, words):
    result = after(RefusingProgress(kind=kind), CALL, form, BERN)
    assert not result.calls and words in result.text and ZURICH.arguments in result.text
