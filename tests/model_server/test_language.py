"""The small parts: dates, times, arithmetic, clauses, results."""

from datetime import date

import pytest

from windtunnel.model_server.dates import find_dates, today_of
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.numbers import find_numbers
from windtunnel.model_server.results import parse_result
from windtunnel.model_server.snippets import from_text
from windtunnel.model_server.steps import split
from windtunnel.model_server.times import find_durations, find_times

TODAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-03-02"),
        ("tomorrow", "2026-03-03"),
        ("the day after tomorrow", "2026-03-04"),
        ("Friday", "2026-03-06"),
        ("Monday", "2026-03-09"),
        ("next Friday", "2026-03-13"),
        ("in three days", "2026-03-05"),
        ("two weeks from today", "2026-03-16"),
        ("March 12th", "2026-03-12"),
        ("the 3rd of April", "2026-04-03"),
        ("1 March", "2027-03-01"),
        ("12/03/2026", "2026-03-12"),
        ("03/25/2026", "2026-03-25"),
        ("2026-12-24", "2026-12-24"),
        ("Friday, March 6", "2026-03-06"),
    ],
)
def test_dates_are_read(text, day):
    assert [str(dated.value) for dated in find_dates(f"Meet {text}, please", TODAY)] == [day]


@pytest.mark.parametrize("text", ["30 February", "May I go", "he sat in the sun", "version 1.2.3"])
def test_what_is_no_date_is_left(text):
    assert find_dates(text, TODAY) == ()


@pytest.mark.parametrize(
    "system",
    ["Today is Monday, 2 March 2026.", "Today is 2026-03-02", "Current date: March 2, 2026", "", "Be kind."],
)
def test_today_comes_from_the_system_message_or_the_fixed_clock(system):
    assert today_of(system) == TODAY


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("at 3pm", "15:00"),
        ("at 15:00", "15:00"),
        ("half past nine", "09:30"),
        ("quarter to five", "16:45"),
        ("at noon", "12:00"),
        ("12 am", "00:00"),
        ("at 4 pm", "16:00"),
        ("at nine in the evening", "21:00"),
        ("2026-03-02T10:00", "10:00"),
    ],
)
def test_times_are_read(text, time):
    assert [timed.text for timed in find_times(text)] == [time]


@pytest.mark.parametrize(
    ("text", "minutes"), [("for 20 minutes", 20), ("an hour and a half", 90), ("a 10-minute timer", 10)]
)
def test_durations_are_read(text, minutes):
    assert [duration.seconds for duration in find_durations(text)] == [60 * minutes]


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("15% of 240", "15 / 100 * 240"),
        ("the square root of 144", "sqrt(144)"),
        ("twelve times 9", "12 * 9"),
        ("the sum of 3, 4 and 5", "3 + 4 + 5"),
        ("20% off 80", "80 * (1 - 20 / 100)"),
        ("a 20% tip on $54.50", "20 / 100 * 54.5"),
        ("2 to the power of 10", "2 ** 10"),
        ("subtract 5 from 20", "20 - 5"),
        ("multiply it by 3", "{0} * 3"),
        ("(3+4)*2", "(3 + 4) * 2"),
    ],
)
def test_arithmetic_is_read(text, formula):
    assert [found.formula for found in find_expressions(text)] == [formula]


def test_numbers_are_read_from_figures_and_words():
    assert [number.value for number in find_numbers("1,200.5 and twenty-five and -3")] == [1200.5, 25, -3]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Find the weather in Paris and message it to Bob.", 2),
        ("Tell Bob that I am late and that he should wait", 1),
        ("Send a message to Bob saying I'll bring cake and drinks, then delete my events on Friday", 2),
        ("Send 'call me. And hurry, then sleep' to Bob", 1),
        ("What's the weather in Paris and Rome?", 1),
        ("1. Check my inbox.\n2. Add lunch tomorrow at noon", 2),
    ],
)
def test_requests_split_into_clauses(text, clauses):
    assert len(split(text)) == clauses


@pytest.mark.parametrize(
    ("content", "unknown"),
    [
        ('{"error": {"code": "timeout", "message": "m", "side_effect": "unknown"}}', True),
        ('{"error": {"code": "refused", "message": "m", "side_effect": "none"}}', False),
        ("Error: timed out", True),
        ("Error: 404 not found", False),
        ('{"error": "timed out"}', True),
        ('{"success": false, "message": "invalid date"}', False),
        ("", True),
    ],
)
def test_failures_are_recognised_with_what_they_say_of_the_effect(content, unknown):
    failure = parse_result(content).failure
    assert failure is not None
    assert failure.unknown_effect is unknown


@pytest.mark.parametrize(
    "content", ['{"result": 3}', "11 degrees", "[]", '{"errors": []}', '{"status": "sent"}']
)
def test_results_are_no_failures(content):
    assert parse_result(content).failure is None


@pytest.mark.parametrize(
    ("question", "text", "value", "unit"),
    [
        ("How tall is it?", "It is 330 metres tall, built in 1889.", 330, "metres"),
        ("When was it built?", "It is 330 metres tall, built in 1889.", 1889, None),
        ("Who wrote Emma?", "Emma is a novel by Jane Austen.", "Jane Austen", None),
        ("What is the population?", "It has 5.5 million people.", 5500000, "people"),
    ],
)
def test_values_are_found_in_running_text(question, text, value, unit):
    (found,) = from_text(question, text)
    assert (found.value, found.unit) == (value, unit)
