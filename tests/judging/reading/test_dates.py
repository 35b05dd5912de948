import pytest

from wirefault.judging.reading.dates import days_in, normalised_clock, normalised_day, times_in


@pytest.mark.parametrize(
    "text",
    [
        *("2026-3-12", "2026/03/12", "20260312", "12.03.2026", "12. 3. 2026", "12 March 2026", "12-Mar-2026"),
        *(
            "March 12th, 2026",
            "the 12th of March 2026",
            "the 12th day of March 2026",
            "12. März 2026",
            "12 de marzo de 2026",
            "12 mars 2026",
        ),
        *("12 марта 2026", "2026年3月12日", "2026-03-12T14:30"),
    ],
)
def test_day_forms_of_many_countries(text):
    assert "2026-03-12" in [reading for day in days_in(text.casefold()) for reading in day.readings]


def test_day_may_have_two_readings_or_no_year():
    assert [day.readings for day in days_in("12/03/2026")] == [("2026-03-12", "2026-12-03")]
    assert [day.readings for day in days_in("march 12")] == [("0000-03-12",)]
    assert list(days_in("30 february 2026")) == []


@pytest.mark.parametrize("text", ["2:30 PM", "14:30", "14h30", "14.30 Uhr", "2:30 p.m.", "14:30:00"])
def test_forms_of_time_of_day(text):
    assert [time.readings for time in times_in(text.casefold())] == [("14:30",)]


def test_duration_is_not_time_of_day():
    assert list(times_in("12 h")) == []
    assert [time.readings for time in times_in("9h", hours=True)] == [("09:00",)]


def test_days_and_times_are_normalised():
    assert (normalised_day("12 March 2026"), normalised_clock("2:30 PM")) == ("2026-03-12", "14:30")


@pytest.mark.parametrize(
    ("normalise", "text", "why"),
    [
        (normalised_day, "2026-02-30", "not a date"),
        (normalised_day, "on 2026-02-03", "not a date"),
        (normalised_day, "12/03/2026", "may be 2026-03-12 or 2026-12-03"),
        (normalised_day, "12 March", "no year"),
        (normalised_clock, "25:00", "not a time of day"),
        (normalised_clock, "noonish", "not a time of day"),
    ],
)
def test_other_texts_are_rejected(normalise, text, why):
    with pytest.raises(ValueError, match=why):
        normalise(text)
