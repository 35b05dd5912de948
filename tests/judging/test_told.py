"""What a model was told by its tools, for a subject that records nothing: by the bodies that were kept."""

import json
from dataclasses import replace

import pytest

from tests.judging.oracle.histories import ended, episode, exchange, met
from wirefault.history.events import EpisodeStarted
from wirefault.judging.judge import judge_episode
from wirefault.judging.oracle.tool_results import tool_results
from wirefault.judging.requests import episode_trace

REPORT = ended(values=[{"value": 11.3, "unit": "celsius"}])
EXPECT = {"values": [{"number": 11.3, "unit": "celsius"}]}
RESULT = '{"temperature": 11.3}'
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "a", "content": RESULT}
GIVEN = {"name": "get", "response": {"temperature": 11.3}}
OPAQUE = EpisodeStarted(101.0, "001", "How warm is it?", EXPECT, recorded=False)


def asked(*results, **more):
    """A request to the model that repeats these results."""
    messages = [{"role": "user", "content": "How warm is it?"}]
    messages += [{"role": "tool", "tool_call_id": "a", "content": result} for result in results]
    known = {"dialect": "openai_chat", "request_body": json.dumps({"messages": messages})}
    return exchange("model", **{"method": "POST"} | known | more)


def reply(body=RESULT, **more):
    return exchange("weather", **{"dialect": "http", "reply_body": body} | more)


def judged(*exchanges, report=REPORT, expect=EXPECT):
    _, *others = episode(*exchanges, report, expect=expect)
    return judge_episode([replace(OPAQUE, expect=expect), *others])


@pytest.mark.parametrize(
    ("exchanges", "ungrounded"),
    [
        ([asked(), reply()], False),
        ([asked(RESULT)], False),  # a tool that no link leads to
        ([asked()], True),
        ([asked("{}"), reply("{}")], True),
        ([asked(), reply(RESULT, status=500)], True),
        ([reply("{}")], False),  # what the model was told is not known
        ([asked(request_body=None)], False),
        ([asked(request_cut=True)], False),
        ([asked(request_body="no JSON")], False),
        ([asked(), asked(method="GET", request_body="")], True),  # a list of models, for example
        ([asked(), reply("{}", reply_cut=True)], False),
        ([asked(), reply(None)], False),
    ],
)
def test_a_value_is_ungrounded_if_no_tool_told_it_and_all_is_known(exchanges, ungrounded):
    assert ("ungrounded" in judged(*exchanges).flags) is ungrounded


@pytest.mark.parametrize(
    ("dialect", "result"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": [TOOL_RESULT]}]}),
        ("openai_responses", {"input": [{"type": "function_call_output", "call_id": "a", "output": RESULT}]}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"functionResponse": GIVEN}]}]}),
    ],
)
def test_what_tools_told_is_read_in_the_dialect_of_the_model(dialect, result):
    request = asked(dialect=dialect, request_body=json.dumps(result))
    assert tool_results(episode_trace([OPAQUE, request])).in_requests == [RESULT]


def test_a_value_that_a_fault_planted_has_misled_the_agent():
    planted = met("wrong_value", id="a", content=True, evidence={"changed": "19.3", "original": "11.3"})
    told = '{"temperature": 19.3}'
    report = ended(values=[{"value": 19.3, "unit": "celsius"}])
    assert judged(asked(told), reply(told, fault=planted), report=report).outcome == "misled"
    other = exchange("news", dialect="http", reply_body=told)
    assert judged(asked(told), reply(told, fault=planted), other, report=report).outcome == "false_success"
