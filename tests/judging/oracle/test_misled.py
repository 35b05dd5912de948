"""Who passes on what a fault planted, and does nothing else wrong, was misled."""

import pytest

from tests.judging.oracle.histories import called, created, exchange, met, sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.tool_results import PlantedValues, is_misled, tool_results
from wirefault.judging.oracle.value import judge_value
from wirefault.judging.oracle.world import judge_world
from wirefault.judging.requests import episode_trace

PARIS = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}
TELL_BOB = {"kind": "message_sent", "fields": {"to": "Bob", "body": PARIS}}
TOLD = '{"city": "Paris", "temp": 18.4, "humidity": 71}'
LEAF = {"field": "temp", "original": 8.4, "changed": 18.4}
FURTHER = {"field": "humidity", "original": 71, "changed": 19.1}
WORDS = {"original": '{"text": "Canberra is the capital."}', "changed": '{"text": "Sydney is the capital."}'}


def content(**evidence):
    return met("wrong_value", 200, "w", content=True, evidence=evidence)


def misled(expect, values=(), effects=(), fault=None, told=TOLD, natural=(), **crossed):
    """``natural``: the results of other calls, which no fault had changed."""
    fault = fault or content(**LEAF)
    oracle = parse_expect(expect)
    calls = [called(told), *(called(text, fingerprint=f"n{number}") for number, text in enumerate(natural))]
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
        (12.0, {}, False),  # nobody told it that
        (8.4, {}, False),  # and that is right
        (18.4, {"natural": ['{"city": "Rome", "temp": 18.4}']}, False),
        (18.4, {"natural": ['{"city": "Rome", "temp": 15.2}']}, True),
        (18.4, {"call": 2}, False),
        (18.4, {"fault": met("server_error", 500)}, False),
        (18.4, {"fault": met("truncate", 200, content=True, evidence={"cut_at": 3})}, False),
        (19.1, {"told": TOLD.replace("71", "19.1"), "fault": content(**LEAF, further=[FURTHER])}, True),
        (18.4, {"told": "291.55", "fault": content(original="281.55", changed="291.55")}, True),
    ],
)  # fmt: skip
def test_a_value_of_the_report(value, more, expected):
    assert misled({"values": [PARIS]}, [value], **more) is expected


def test_every_wrong_slot_must_be_planted():
    two = {"values": [PARIS, {"number": 71, "unit": "celsius"}]}
    assert misled(two, [18.4, 71])
    assert not misled(two, [18.4, 72])
    assert not misled(two, [18.4])


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([sent(body="It is 18.4 °C in Paris")], True),
        ([sent(body="It is 12 °C in Paris")], False),
        ([sent(body="It is 1e305 °C in Paris")], False),
        ([sent(body="It is 8.4 °C in Paris")], False),
        ([sent(to="Eve", body="It is 18.4 °C")], False),
        ([sent(body="It is 18.4 °C"), sent(to="Eve", body="hi")], False),
        ([sent(body="It is 18.4 °C"), created()], False),
        ([], False),
    ],
)
def test_a_field_of_a_side_effect(effects, expected):
    assert misled({"effects": [TELL_BOB]}, effects=effects) is expected


@pytest.mark.parametrize(
    ("body", "natural", "expected"),
    [
        ("The capital is Sydney.", [], True),
        ("The capital is Melbourne.", [], False),
        ("The capital is Sydney.", ["Sydney is large"], False),
    ],
)
def test_a_field_in_words(body, natural, expected):
    expect = {
        "effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": {"contains": "Canberra"}}}]
    }
    told = WORDS["changed"]
    sent_to_bob = [sent(body=body)]
    assert misled(expect, effects=sent_to_bob, fault=content(**WORDS), told=told, natural=natural) is expected


def test_a_wrong_value_beside_a_wrong_world_of_its_own_is_no_excuse():
    expect = {"values": [PARIS], "effects": [TELL_BOB]}
    assert misled(expect, [18.4], [sent(body="18.4 °C")])
    assert misled(expect, [18.4], [sent(body="8.4 °C")])
    assert not misled(expect, [18.4], [])
    assert not misled(expect, [], [sent(body="18.4 °C")])


def test_the_last_try_of_a_call_is_the_one_that_told():
    crossed = [exchange("weather", fault=content(**LEAF)), exchange("weather", try_=2, start=104)]
    assert PlantedValues.of(tool_results(episode_trace([called(TOLD), *crossed]))).faulted == []
