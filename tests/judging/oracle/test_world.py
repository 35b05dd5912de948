import pytest

from tests.judging.oracle.histories import ASK_BOB, message_sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.matching import field_matches
from wirefault.judging.oracle.slots import Matcher
from wirefault.judging.oracle.world import judge_world

TO_ANN = {"kind": "message_sent", "fields": {"to": "Ann"}}
TO_ANYONE = {"kind": "message_sent", "fields": {"body": {"contains": "hi"}}}
EVENT = {"kind": "event_created", "fields": {"title": "Lunch"}}


def axis(expected, *effects, settled=True):
    return judge_world(parse_expect({"effects": expected}), effects, settled).axis


BOB = ASK_BOB["effects"][0]


@pytest.mark.parametrize(
    ("expected", "effects", "result"),
    [
        ([BOB], [message_sent()], "as_asked"),
        ([BOB], [message_sent(to=" bob ", body="HI")], "as_asked"),
        ([BOB], [], "lost"),
        ([BOB], [message_sent(), message_sent()], "duplicated"),
        ([BOB, BOB], [message_sent(), message_sent()], "as_asked"),
        ([BOB, BOB], [message_sent()], "lost"),
        ([BOB], [message_sent(body="no")], "wrong"),
        ([BOB], [message_sent(), message_sent(to="Eve")], "extra"),
        ([EVENT], [message_sent()], "lost"),
        ([], [], "not_applicable"),
        ([], [message_sent()], "extra"),
    ],
)
def test_world_axis(expected, effects, result):
    assert axis(expected, *effects) == result


@pytest.mark.parametrize(
    ("effects", "result"),
    [
        ([message_sent(), message_sent()], "duplicated"),  # and Ann's is missing
        ([message_sent(), message_sent(to="Eve")], "wrong"),  # and the message to Eve is one too many
        ([message_sent()], "lost"),
    ],
)
def test_precedence_where_several_apply(effects, result):
    assert axis([BOB, TO_ANN], *effects) == result


def test_unknown_precedes_all():
    assert axis([BOB], message_sent(), message_sent(), settled=False) == "unknown"
    assert judge_world(parse_expect(ASK_BOB), None, True).axis == "unknown"


def test_assignment_is_largest():
    # a value that fits any slot must be left for the slot that nothing else fits
    assert axis([TO_ANYONE, BOB], message_sent(), message_sent(to="Ann")) == "as_asked"


@pytest.mark.parametrize(
    ("matcher", "value", "fits"),
    [
        ("Bob", "  BOB ", True),
        ("Bob", "Bobby", False),
        (3, 3, True),
        (3, "3", True),
        (3, "three", False),
        (True, True, True),
        (1, True, False),
        (None, None, True),
        (["a", "b"], ["A", "b "], True),
        (["a"], ["a", "b"], False),
        ({"contains": "paris"}, "In Paris.", True),
        ({"contains": ["paris", "11"]}, "In Paris.", False),
        ({"contains": "Lunch"}, ["Team lunch", "Review"], True),
        ({"number": 11.3, "tolerance": 0.5}, "It is 11.5 °C", True),
        ({"number": 11.3, "tolerance": 0.5}, "It is 12.5 °C", False),
        ({"number": 11.3, "tolerance": 0.1, "unit": "celsius"}, "It is 52.3 °F", True),
        ({"any_of": ["a", "b"]}, "B", True),
        ({"any_of": [3, 4]}, 4, True),
        ({"any_of": [3, 4], "tolerance": 0.2}, "about 4.1", True),
        ({"any_of": ["a"]}, "c", False),
    ],
)
def test_field_matchers(matcher, value, fits):
    assert field_matches(Matcher.model_validate(matcher), value) is fits


def test_missing_field_does_not_match():
    effect = message_sent() | {"fields": {"to": "Bob"}}
    assert axis([BOB], effect) == "wrong"
