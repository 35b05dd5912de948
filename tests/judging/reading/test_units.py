import pytest

from wirefault.judging.reading.units import convert, siblings, unit_after, units_of


@pytest.mark.parametrize(
    ("given", "name"),
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
def test_a_unit_is_known_by_the_words_that_people_write(given, name):
    assert [unit.name for unit in units_of(given)] == [name]


@pytest.mark.parametrize(
    "given", ["metrs", "apples", "", "euros per night", "m**2 + 1", "__import__('os')", "(" * 99]
)
def test_what_is_no_unit_is_none_and_is_never_evaluated(given):
    assert units_of(given) == ()


def test_a_word_may_stand_for_several_units():
    assert {unit.dimension for unit in units_of("pounds")} == {"mass", "currency GBP"}


def test_a_word_of_running_text_is_no_unit():
    assert unit_after("8.4 in paris", 3) == ((), 3)
    assert unit_after("8.4 m^2", 3)[0][0].dimension == "area"


def test_currencies_do_not_convert_into_one_another():
    assert convert(5, "EUR", "USD") == 5


def test_the_units_of_a_dimension_are_siblings():
    assert siblings("celsius") == ["degC", "degF", "kelvin"]
    assert siblings("apples") == []
