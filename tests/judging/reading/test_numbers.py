import pytest

from wirefault.judging.reading.numbers import numerals, written_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8,4", [(8.4,)]),
        ("4,200", [(4200, 4.2)]),
        ("4.200", [(4.2, 4200)]),
        ("0.330", [(0.33,)]),
        ("4 200", [(4200,)]),
        ("1'234'567.8", [(1234567.8,)]),
        ("4.200,50 4,200.50", [(4200.5,), (4200.5,)]),
        ("12,34,567", [(1234567,)]),
        ("1,2,3", [(1,), (2,), (3,)]),
        ("-8.4 5-8", [(-8.4,), (5,), (8,)]),
        ("4.2×10^3 4.2e3", [(4200,), (4200,)]),
        ("v2.1.3 Q3 127.0.0.1 1e999", []),
        ("EUR4200", [(4200,)]),
    ],
)
def test_numeral_has_all_possible_values(text, values):
    assert [numeral.values for numeral in numerals(text)] == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("eight point four", 8.4),
        ("three hundred and thirty", 330),
        ("four thousand two hundred", 4200),
        ("nineteen eighty-four", 1984),
        ("zweiundvierzig", 42),
        ("achtkommavier", 8.4),
        ("quatre-vingt-dix-sept", 97),
        ("trescientos treinta", 330),
    ],
)
def test_number_in_words_is_read_whole(text, value):
    assert [number.value for number in written_numbers(text)] == [value]


@pytest.mark.parametrize("text", ["ottocentoventotto", "tweeënveertig", "três mil", "三百三十"])
def test_number_words_of_other_languages_are_not_read(text):
    assert list(written_numbers(text)) == []


def test_words_that_begin_like_numbers_are_ignored():
    assert list(written_numbers("offering tension, someone threefold")) == []
