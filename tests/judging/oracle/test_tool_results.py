"""Tool results: values that they ground, values that faults planted, late effects."""

import json

import pytest

from tests.judging.oracle.histories import (
    called,
    created,
    ended,
    episode,
    exchange,
    fault_met,
    judge_episode,
    message_sent,
    tried,
)
from tests.support import replace
from wirefault.history.events import EpisodeStarted
from wirefault.judging.oracle.episode import is_late
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.tool_results import PlantedValues, is_misled, is_ungrounded, tool_results
from wirefault.judging.oracle.value import judge_value
from wirefault.judging.oracle.world import judge_world
from wirefault.judging.trace import episode_trace

PARIS = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}
TELL_BOB = {"kind": "message_sent", "fields": {"to": "Bob", "body": PARIS}}
TOLD = '{"city": "Paris", "temp": 18.4, "humidity": 71}'
LEAF = {"field": "temp", "original": 8.4, "changed": 18.4}
FURTHER = {"field": "humidity", "original": 71, "changed": 19.1}
WORDS = {"original": '{"text": "Canberra is the capital."}', "changed": '{"text": "Sydney is the capital."}'}


def content(**evidence):
    return fault_met("wrong_value", 200, "w", content=True, evidence=evidence)


def misled(expect, values=(), effects=(), fault=None, tool_result=TOLD, natural=(), **crossed):
    """``natural``: the results of other calls, which no fault had changed."""
    fault = fault or content(**LEAF)
    oracle = parse_expect(expect)
    calls = [
        called(tool_result),
        *(called(text, fingerprint=f"n{number}") for number, text in enumerate(natural)),
    ]
    return is_misled(
        judge_world(oracle, list(effects), settled=True),
        judge_value(oracle.values, [{"value": value, "unit": "celsius"} for value in values]),
        PlantedValues.of(tool_results(episode_trace([*calls, exchange("weather", fault=fault, **crossed)]))),
    )


@pytest.mark.parametrize(
    ("value", "more", "expected"),
    [
        (18.4, {}, True),
        ("18.4", {}, True),
        (71.0, {}, False),  # the fault left that as it was
        (12.0, {}, False),  # no reply contained it
        (8.4, {}, False),  # the correct result
        (18.4, {"natural": ['{"city": "Rome", "temp": 18.4}']}, False),
        (18.4, {"natural": ['{"city": "Rome", "temp": 15.2}']}, True),
        (18.4, {"call": 2}, False),
        (18.4, {"fault": fault_met("server_error", 500)}, False),
        (18.4, {"fault": fault_met("truncate", 200, content=True, evidence={"cut_at": 3})}, False),
        (
            19.1,
            {"tool_result": TOLD.replace("71", "19.1"), "fault": content(**LEAF, further=[FURTHER])},
            True,
        ),
        (18.4, {"tool_result": "291.55", "fault": content(original="281.55", changed="291.55")}, True),
    ],
)  # fmt: skip
def test_reported_value(value, more, expected):
    assert misled({"values": [PARIS]}, [value], **more) is expected


def test_every_wrong_slot_must_come_from_fault():
    two = {"values": [PARIS, {"number": 71, "unit": "celsius"}]}
    assert misled(two, [18.4, 71])
    assert not misled(two, [18.4, 72])
    assert not misled(two, [18.4])


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([message_sent(body="It is 18.4 °C in Paris")], True),
        ([message_sent(body="It is 12 °C in Paris")], False),
        ([message_sent(body="It is 1e305 °C in Paris")], False),
        ([message_sent(body="It is 8.4 °C in Paris")], False),
        ([message_sent(to="Eve", body="It is 18.4 °C")], False),
        ([message_sent(body="It is 18.4 °C"), message_sent(to="Eve", body="hi")], False),
        ([message_sent(body="It is 18.4 °C"), created()], False),
        ([], False),
    ],
)
def test_injected_effect_field_misleads(effects, expected):
    assert misled({"effects": [TELL_BOB]}, effects=effects) is expected


@pytest.mark.parametrize(
    ("body", "natural", "expected"),
    [
        ("The capital is Sydney.", [], True),
        ("The capital is Melbourne.", [], False),
        ("The capital is Sydney.", ["Sydney is large"], False),
    ],
)
def test_effect_field_in_prose(body, natural, expected):
    expect = {
        "effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": {"contains": "Canberra"}}}]
    }
    changed = WORDS["changed"]
    sent_to_bob = [message_sent(body=body)]
    assert (
        misled(expect, effects=sent_to_bob, fault=content(**WORDS), tool_result=changed, natural=natural)
        is expected
    )


def test_missing_value_or_effect_is_not_misled():
    expect = {"values": [PARIS], "effects": [TELL_BOB]}
    assert misled(expect, [18.4], [message_sent(body="18.4 °C")])
    assert misled(expect, [18.4], [message_sent(body="8.4 °C")])
    assert not misled(expect, [18.4], [])
    assert not misled(expect, [], [message_sent(body="18.4 °C")])


def test_last_try_gives_result():
    crossed = [exchange("weather", fault=content(**LEAF)), exchange("weather", try_=2, start=104)]
    assert PlantedValues.of(tool_results(episode_trace([called(TOLD), *crossed]))).faulted == []


LOST = {"error": "read_timeout", "ms": 1000.0}  # from 103.0 to 104.0
PARIS_NOW = {"number": 11.3, "unit": "celsius", "tolerance": 0.1}


def filled(slot, value):
    return judge_value(parse_expect({"values": [slot]}).values, [{"value": value, "unit": None}]).slots


@pytest.mark.parametrize(
    ("tries", "at", "late"),
    [
        ([tried(**LOST)], 104.5, True),
        ([tried(**LOST)], 103.9, False),
        ([tried(**LOST), tried(try_=2, start=104.4, ms=300)], 104.5, False),
        ([tried(**LOST), tried(try_=2, start=105.0, **LOST)], 106.1, True),
        ([tried(ms=20)], 103.01, False),
        ([], 103.0, False),
    ],
)
def test_effect_after_last_try_is_late(tries, at, late):
    assert is_late(message_sent(at=at), tries) is late


@pytest.mark.parametrize(
    ("tries", "at", "late"),
    [
        ([tried(idempotency_key=None, **LOST)], 104.5, True),
        ([tried(idempotency_key=None, **LOST)], 103.5, False),
        ([tried(idempotency_key=None)], 104.5, False),
        ([tried("weather", **LOST)], 104.5, False),
    ],
)
def test_late_effect_without_key(tries, at, late):
    assert is_late(message_sent(at=at, key=None), tries) is late


@pytest.mark.parametrize(
    ("slot", "value", "result", "ungrounded"),
    [
        (PARIS_NOW, 11.3, '{"temp":284.45}', False),
        (PARIS_NOW, 11.3, '{"temp":11.31}', False),
        (PARIS_NOW, 11.3, '{"temp":20}', True),
        (PARIS_NOW, 12, '{"temp":20}', False),  # not right, so not ungrounded
        (PARIS_NOW | {"grounded": False}, 11.3, "{}", False),
        ({"number": 1999}, 1999, '{"year":1999}', False),
        ({"text": "Amélie"}, "amélie", '{"name":"Am\\u00e9lie"}', False),
        ({"text": "Amélie"}, "amélie", '{"name":"Heat"}', True),
    ],
)
def test_value_without_tool_result_is_ungrounded(slot, value, result, ungrounded):
    assert is_ungrounded(filled(slot, value), tool_results(episode_trace([called(result)]))) is ungrounded


def test_failed_call_grounds_nothing():
    assert is_ungrounded(
        filled(PARIS_NOW, 11.3), tool_results(episode_trace([called("error after 11.3 s", ok=False)]))
    )


REPORT = ended(values=[{"value": 11.3, "unit": "celsius"}])
EXPECT = {"values": [{"number": 11.3, "unit": "celsius"}]}
RESULT = '{"temperature": 11.3}'
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "a", "content": RESULT}
GIVEN = {"name": "get", "response": {"temperature": 11.3}}
OPAQUE = EpisodeStarted(101.0, "001", "How warm is it?", EXPECT, recorded=False)


def model_saw(*results, **more):
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
        ([model_saw(), reply()], False),
        ([model_saw(RESULT)], False),  # a tool that no link leads to
        ([model_saw()], True),
        ([model_saw("{}"), reply("{}")], True),
        ([model_saw(), reply(RESULT, status=500)], True),
        ([reply("{}")], False),  # the tool result that the model received is unknown
        ([model_saw(request_body=None)], False),
        ([model_saw(request_cut=True)], False),
        ([model_saw(request_body="no JSON")], False),
        ([model_saw(), model_saw(method="GET", request_body="")], True),  # a list of models, for example
        ([model_saw(), reply("{}", reply_cut=True)], False),
        ([model_saw(), reply(None)], False),
    ],
)
def test_value_without_known_result_is_ungrounded(exchanges, ungrounded):
    assert ("ungrounded" in judged(*exchanges).flags) is ungrounded


@pytest.mark.parametrize(
    ("dialect", "result"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": [TOOL_RESULT]}]}),
        ("openai_responses", {"input": [{"type": "function_call_output", "call_id": "a", "output": RESULT}]}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"functionResponse": GIVEN}]}]}),
    ],
)
def test_tool_results_in_each_dialect(dialect, result):
    request = model_saw(dialect=dialect, request_body=json.dumps(result))
    assert tool_results(episode_trace([OPAQUE, request])).in_requests == [RESULT]


def test_injected_value_misleads():
    planted = fault_met("wrong_value", id="a", content=True, evidence={"changed": "19.3", "original": "11.3"})
    result = '{"temperature": 19.3}'
    report = ended(values=[{"value": 19.3, "unit": "celsius"}])
    assert judged(model_saw(result), reply(result, fault=planted), report=report).outcome == "misled"
    other = exchange("news", dialect="http", reply_body=result)
    assert (
        judged(model_saw(result), reply(result, fault=planted), other, report=report).outcome
        == "false_success"
    )
