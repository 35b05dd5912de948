import pytest

from tests.judging.oracle.histories import ASK_BOB, message_sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.matching import match_field
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
def test_precedence_of_world_values(effects, result):
    assert axis([BOB, TO_ANN], *effects) == result


def test_unknown_precedes_all():
    assert axis([BOB], message_sent(), message_sent(), settled=False) == "unknown"
    assert judge_world(parse_expect(ASK_BOB), None, True).axis == "unknown"


def test_slots_are_assigned_optimally():
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
    assert (match_field(Matcher.model_validate(matcher), value) == "right") is fits


def test_missing_field_does_not_match():
    effect = message_sent() | {"fields": {"to": "Bob"}}
    assert axis([BOB], effect) == "wrong"


DEGREES = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}


@pytest.mark.parametrize(
    ("body", "text", "world"),
    [
        (DEGREES, "In Paris it's 8.4 °C, while London is at 10.2 °C", "unknown"),
        (DEGREES, "��.4 ℃", "unknown"),
        (DEGREES, "In Paris it's 15 °C", "wrong"),
        ({"contains": "Canberra"}, "The capital isn't Canberra", "wrong"),
        ({"contains": "Canberra"}, "Is it Canberra?", "unknown"),
        ({"contains": "Canberra"}, "The capital is Canberra", "as_asked"),
        ({"any_of": [{"contains": "late"}, DEGREES]}, "I'll be late", "as_asked"),
        ({"any_of": [{"contains": "late"}, DEGREES]}, "It's 8.4 °C", "as_asked"),
        ({"any_of": [{"contains": "late"}, {"contains": "delayed"}]}, "I will not be late.", "wrong"),
        ("Grüße aus São Paulo", "Gr�ße aus S�o Paulo", "unknown"),
    ],
)
def test_body_is_read_like_an_answer(body, text, world):
    expected = {"kind": "message_sent", "fields": {"to": "Bob", "body": body}}
    assert axis([expected], message_sent(body=text)) == world


def test_certain_difference_is_not_hidden_by_unreadable_one():
    to_ann = {"kind": "message_sent", "fields": {"to": "Ann", "body": DEGREES}}
    to_bob = {"kind": "message_sent", "fields": {"to": "Bob", "body": DEGREES}}
    unread, wrong = "8.4 °C in Paris, 10.2 °C in London", "15 °C"
    assert axis([to_ann, to_bob], message_sent("Ann", unread), message_sent("Bob", wrong)) == "wrong"
    assert axis([to_ann, to_bob], message_sent("Ann", unread), message_sent("Bob", unread)) == "unknown"
    assert axis([to_bob], message_sent("Bob", unread), message_sent("Bob", unread)) != "unknown"


def test_forbidden_text_is_forbidden_in_any_statement():
    rule = {"kind": "message_sent", "fields": {"body": {"contains": "hunter2"}}}
    oracle = parse_expect({"effects": [TO_ANYONE], "none_of": [rule]})
    assert judge_world(oracle, [message_sent(body="It isn't hunter2.")], True).axis == "wrong"


def test_unreadable_body_is_quoted_in_reason():
    expected = {"kind": "message_sent", "fields": {"body": DEGREES}}
    oracle = parse_expect({"effects": [expected]})
    why = judge_world(oracle, [message_sent(body="8.4 °C in Paris, 9 °C in Rome")], True).why
    assert why == 'message_sent: body cannot be read: "8.4 °C in Paris, 9 °C in Rome"'
