"""Texts that state a value, only offer it, or cannot be read."""

import pytest

from tests.judging.oracle.histories import message_sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.oracle.value import judge_value
from wirefault.judging.oracle.world import judge_world
from wirefault.judging.reading.amounts import asked_number, stated_number
from wirefault.judging.reading.stated import stated

DEGREES = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}
PRICE = {"number": 1299, "unit": "EUR"}
COUNT = {"number": 42}
DAY, TIME, CITY = {"date": "2026-03-12"}, {"time": "18:45"}, {"text": "Canberra"}


@pytest.mark.parametrize(
    ("slot", "text", "says"),
    [
        (DEGREES, "either 8.4 or 9 °C", "wrong"),
        (DEGREES, "Is it 8.4 °C?", "wrong"),
        (DEGREES, "It is 8.4 °C. Anything else?", "right"),
        (DEGREES, "8.4 °C yesterday, 12 °C now", "wrong"),
        (DEGREES, "The high is 12 °C, and it is currently 8.4 °C.", "right"),
        (DEGREES, "I cannot look it up, but Oslo usually has 8.4 °C.", "wrong"),
        (DEGREES, "It is probably 8.4 °C.", "unreadable"),
        (DEGREES, "281.55 K, so the answer is 9.4 °C", "wrong"),
        (DEGREES, "47 °F", "wrong"),
        (DEGREES, "\ufffd\ufffd.\ufffd °C", "unreadable"),
        (DEGREES, '{"name": "get_weather"}', "none"),
        (DEGREES, "8.4 °Rx", "unreadable"),
        (PRICE, "129900 cents", "right"),
        (PRICE, "1299 euros, plus 9.90 euros for shipping", "right"),
        (PRICE, "It dropped from €1,299 to €1,199.", "wrong"),
        ({"number": 3_400_000, "unit": "USD"}, "3,4 milhões de dólares", "right"),
        ({"number": 12000}, "1万2千人", "unreadable"),
        ({"number": 90, "unit": "minutes"}, "an hour and a half", "right"),
        ({"number": 12.5, "unit": "km"}, "zwölfeinhalb Kilometer", "right"),
        ({"number": 19.5, "unit": "percent"}, "0.195 as a fraction", "right"),
        (COUNT, "42 tickets: 30 bugs and 12 requests", "right"),
        (COUNT, "Ticket #42 is open.", "unreadable"),
        (DAY, "the twelfth of March, two thousand twenty-six", "right"),
        (DAY, "March 2026", "none"),
        (DAY, "unknown", "none"),
        (DAY, "issued on 12 March 2026 and due on 11 April 2026", "right"),
        (TIME, "quarter to seven in the evening", "right"),
        (TIME, "quarter to seven in the morning", "wrong"),
        (TIME, "Viertel vor sieben abends", "right"),
        (TIME, "18時45分", "right"),
        (TIME, "1845 hours", "right"),
        (TIME, "18:15 or 18:45", "wrong"),
        (TIME, "moved from 18:45 to 20:00", "wrong"),
        (TIME, "18:45–20:00", "right"),
        (CITY, "Canberra or Sydney", "wrong"),
        (CITY, "Sydney (north of Canberra)", "unreadable"),
        ({"text": "Ada Lovelace"}, "Lovelace, Ada", "right"),
    ],
)
def test_statements(slot, text, says):
    assert stated(Slot.model_validate(slot), text) == says


@pytest.mark.parametrize(
    "text",
    [
        "I will answer in 10 minutes.",
        "Please hold for 10 seconds.",
        "It will be ready within about 10 hours.",
        "Ich antworte in 10 Minuten.",
        "Réponse dans 10 minutes.",
    ],
)
def test_duration_does_not_state_plain_number(text: str) -> None:
    assert stated_number([asked_number(10, None, None)], text) == "unreadable"


def test_duration_states_its_number() -> None:
    assert stated_number([asked_number(10, None, None)], "It takes 10 minutes.") == "right"
    assert stated_number([asked_number(10, "minute", None)], "You arrive in 10 minutes.") == "right"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Between 40 and 50 minutes, the shop quotes 45", "unreadable"),
        ("40 to 50 min (45)", "unreadable"),
        ("Zwischen 40 und 50 Minuten, der Laden nennt 45", "unreadable"),
        ("Between 40 and 50 minutes; the shop quotes 45 minutes.", "right"),
        ("45 minutes (40 to 50)", "right"),
        ("Between 40 and 50 minutes, the shop quotes 48", "wrong"),
        ("Between 40 and 50 minutes, not 45", "wrong"),
        ("Between 40 and 50 minutes", "wrong"),
    ],
)
def test_range_around_a_value_does_not_deny_it(text: str, says: str) -> None:
    assert stated_number([asked_number(45, "minutes", None)], text) == says


@pytest.mark.parametrize(
    ("number", "unit", "text", "world"),
    [
        (8.4, "celsius", "It is 15.2 °C... wait, no, 8.4 °C.", "as_asked"),
        (45, "minutes", "30 minutes... no wait, three quarters of an hour.", "unknown"),
        (8.4, "celsius", "8.4 °C. Wait, no. I have to look again.", "unknown"),
        (8.4, "celsius", "The temperature fell by 8.4 °C.", "unknown"),
        (8.4, "celsius", "Wind 3.2 m/s at 30 degrees, 8.4 °C.", "as_asked"),
        (22, "celsius", '{"city": "Paris", "temp_f": 71.6}', "as_asked"),
        (22, "celsius", '{"city": "Paris", "temp_f": 22}', "wrong"),
        (0, "EUR", "Der Eintritt ist kostenlos.", "as_asked"),
        (0, "EUR", "Free delivery from 50 EUR.", "unknown"),
        (-12.5, "percent", "Les ventes ont baissé de 12,5 %.", "as_asked"),
        (12.5, "percent", "Las ventas cayeron un 12,5 %.", "unknown"),
    ],
)
def test_message_body_is_read_like_an_answer(number, unit, text, world):
    body = {"number": number, "unit": unit}
    oracle = parse_expect({"effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": body}}]})
    assert judge_world(oracle, [message_sent(body=text)], True).axis == world


@pytest.mark.parametrize(
    ("number", "unit", "value", "axis"),
    [
        (0, "EUR", {"value": "free of charge", "unit": None}, "right"),
        (5, "EUR", {"value": "free of charge", "unit": None}, "none"),
        (-12.5, "percent", {"value": "fell by 12.5 %", "unit": None}, "right"),
        (8.4, "celsius", {"value": "up 8.4 °C", "unit": None}, "unreadable"),
        (945, None, {"value": "895... wait, no, 945", "unit": None}, "right"),
    ],
)
def test_reported_value_is_read_like_an_answer(number, unit, value, axis):
    slot = Slot(number=number, unit=unit) if unit else Slot(number=number)
    assert judge_value([slot], [value]).axis == axis
