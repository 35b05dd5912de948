import pytest

from wirefault.judging.reading.units import convert, siblings, unit_after, units_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("celsius", "degC"),
        ("degC", "degC"),
        ("° C", "degC"),
        ("deg. C", "degC"),
        ("°c.", "degC"),
        ("Celsius (°C)", "degC"),
        ("Grad Celsius", "degC"),
        ("graus Fahrenheit", "degF"),
        ("градусов Цельсия", "degC"),
        ("metres tall", "meter"),
        ("pieds", "foot"),
        ("furlong", "furlong"),
        ("€", "EUR"),
        ("km per hour", "kilometer/hour"),
    ],
)
def test_unit_spellings(text, name):
    assert [unit.name for unit in units_of(text)] == [name]


@pytest.mark.parametrize(
    "text", ["metrs", "apples", "", "euros per night", "m**2 + 1", "__import__('os')", "(" * 99]
)
def test_unknown_units_are_not_evaluated(text):
    assert units_of(text) == ()


def test_word_may_have_several_units():
    assert {unit.dimension for unit in units_of("pounds")} == {"mass", "currency GBP"}


def test_ordinary_word_is_not_unit():
    assert unit_after("8.4 in paris", 3) == ((), 3)
    assert unit_after("8.4 m^2", 3)[0][0].dimension == "area"


def test_currencies_do_not_convert_into_one_another():
    assert convert(5, "EUR", "USD") == 5


def test_units_of_dimension_are_siblings():
    assert siblings("celsius") == ["degC", "degF", "kelvin"]
    assert siblings("apples") == []
