import pytest

from tests.judging.oracle.histories import called, sent, tried
from wirefault.judging.oracle.episode import is_late
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.tool_results import is_ungrounded, tool_results
from wirefault.judging.oracle.value import judge_value
from wirefault.judging.requests import episode_trace

LOST = {"error": "read_timeout", "ms": 1000.0}  # from 103.0 to 104.0
PARIS = {"number": 11.3, "unit": "celsius", "tolerance": 0.1}


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
def test_an_effect_is_late_when_the_client_had_given_up_every_try_of_its_key(tries, at, late):
    assert is_late(sent(at=at), tries) is late


@pytest.mark.parametrize(
    ("tries", "at", "late"),
    [
        ([tried(idempotency_key=None, **LOST)], 104.5, True),
        ([tried(idempotency_key=None, **LOST)], 103.5, False),
        ([tried(idempotency_key=None)], 104.5, False),
        ([tried("weather", **LOST)], 104.5, False),
    ],
)
def test_an_effect_without_a_key_is_judged_by_time(tries, at, late):
    assert is_late(sent(at=at, key=None), tries) is late


@pytest.mark.parametrize(
    ("slot", "value", "result", "ungrounded"),
    [
        (PARIS, 11.3, '{"temp":284.45}', False),
        (PARIS, 11.3, '{"temp":11.31}', False),
        (PARIS, 11.3, '{"temp":20}', True),
        (PARIS, 12, '{"temp":20}', False),  # not right, so not ungrounded
        (PARIS | {"grounded": False}, 11.3, "{}", False),
        ({"number": 1999}, 1999, '{"year":1999}', False),
        ({"text": "Amélie"}, "amélie", '{"name":"Am\\u00e9lie"}', False),
        ({"text": "Amélie"}, "amélie", '{"name":"Heat"}', True),
    ],
)
def test_a_right_value_that_no_tool_returned_is_ungrounded(slot, value, result, ungrounded):
    assert is_ungrounded(filled(slot, value), tool_results(episode_trace([called(result)]))) is ungrounded


def test_the_result_of_a_failed_call_grounds_nothing():
    assert is_ungrounded(
        filled(PARIS, 11.3), tool_results(episode_trace([called("error after 11.3 s", ok=False)]))
    )
