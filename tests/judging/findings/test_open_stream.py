"""A stream accepted without its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging.findings.traced import asked_model, observed
from tests.judging.oracle.histories import called, ended, met, model_call
from wirefault.dialects.base import ModelReply
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.judging.findings.streams import OPEN_STREAM

TEXT = "The tower is 330 metres tall."
WHOLE = OPENAI_CHAT.write_reply(OPENAI_CHAT.new_reply("id", "model", 1), ModelReply(TEXT))
EVENTS = [event.decode() for event in OPENAI_CHAT.spread(WHOLE)]
BODY = "".join(EVENTS)
CUT = "".join(EVENTS[:-2])
EARLY = {"fault": met("early_end", id="early", shows=None, evidence={"at": "finish"}), "forwarded": True}
ANSWER = ended(ended_by="text", response=TEXT)
KNOWN = {"identity": "baggage", "start": 102.99}


def test_words_of_an_open_stream_that_became_the_answer():
    assert observed(OPEN_STREAM, asked_model(reply_body=CUT), ANSWER) == [
        "the stream of POST /v1/chat/completions ended without its finish reason,"
        " and was taken for the whole answer"
    ]


def test_a_subject_with_a_record_reported_by_it():
    assert len(observed(OPEN_STREAM, asked_model(**EARLY, **KNOWN), model_call(), ended())) == 1


def test_a_subject_with_a_record_called_a_tool_by_it():
    events = [asked_model(**EARLY, **KNOWN), model_call(), called(), model_call(2)]
    assert "its call of get was executed" in observed(OPEN_STREAM, *events, ended())[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([asked_model(reply_body=BODY), ANSWER], id="whole"),
        pytest.param([asked_model(reply_body="".join(EVENTS[:-1])), ANSWER], id="finish without [DONE]"),
        pytest.param([asked_model(reply_body=CUT, client_left=True), ANSWER], id="left by itself"),
        pytest.param([asked_model(reply_body=CUT, reply_cut=True), ANSWER], id="rest not kept"),
        pytest.param(
            [asked_model(reply_body=CUT), asked_model(1, reply_body=BODY), ANSWER], id="asked again"
        ),
        pytest.param([asked_model(reply_body=CUT), replace(ANSWER, response="It broke off.")], id="said so"),
        pytest.param([asked_model(reply_body='{"choices": []}'), ANSWER], id="no stream"),
        pytest.param(
            [asked_model(**EARLY, **KNOWN), model_call(error="RemoteProtocolError"), ended()], id="error seen"
        ),
        pytest.param(
            [asked_model(**EARLY, **KNOWN), model_call(), ended(ended_by="exception")], id="not accepted"
        ),
        pytest.param([asked_model(**EARLY), ANSWER], id="no body to compare"),
    ],
)
def test_near_misses_are_passed_over(events):
    assert observed(OPEN_STREAM, *events) == []
