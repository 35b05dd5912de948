import pytest

from wirefault.judging.reading.text import bare, close, folded, numbers
from wirefault.judging.reading.units import convert


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It is 11.3°C in Paris", [11.3]),
        ("-4 and −5", [-4, -5]),
        ("4,200 euros or 1,234.5", [4200, 1234.5]),
        ("1,2,3", [1, 2, 3]),
        ("on 2026-03-05 at 09:30", []),
        ("version v2, Q3", []),
        ('{"temp":11.3,"n":7}', [11.3, 7]),
        ("6.02e23", [6.02e23]),
        ("1e999", []),
        ("9" * 5000, []),
        ("", []),
    ],
)
def test_numbers_without_dates_and_times(text, values):
    assert list(numbers(text)) == values


def test_number_with_unit_is_converted():
    assert list(numbers("52.34 F, 284.45 K, 5 apples", "celsius")) == pytest.approx([11.3, 11.3, 5])


@pytest.mark.parametrize(
    ("value", "one", "other", "result"),
    [
        (284.45, "K", "celsius", 11.3),
        (52.34, "°F", "degrees celsius", 11.3),
        (11.3, "C", "fahrenheit", 52.34),
        (1.5, "km", "m", 1500),
        (150, "cm", "m", 1.5),
        (90, "min", "hours", 1.5),
        (36, "km/h", "m/s", 10),
        (5, None, "m", 5),
        (5, "apples", "m", 5),
    ],
)
def test_units_convert(value, one, other, result):
    assert convert(value, one, other) == pytest.approx(result)


def test_text_is_folded_and_stripped():
    assert folded("  Ein\n Größe\t") == "ein grösse"
    assert bare(" «Bonjour!» ") == "bonjour"


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "result"),
    [
        (42, 42, None, True),
        (42.1, 42, None, False),
        (1_000_000.5, 1_000_000, None, True),
        (11.309, 11.3, None, True),
        (11.32, 11.3, None, False),
        (11.4, 11.3, 0.1, True),
        (3, 2, 0, False),
    ],
)
def test_default_tolerance_depends_on_kind_of_number(value, expected, tolerance, result):
    assert close(value, expected, tolerance) is result
