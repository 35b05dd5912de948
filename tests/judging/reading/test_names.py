"""Names with and without accents."""

import pytest

from wirefault.judging.oracle.matching import match_field
from wirefault.judging.oracle.slots import Matcher, Slot
from wirefault.judging.reading.names import likeness
from wirefault.judging.reading.stated import stated


@pytest.mark.parametrize(
    ("name", "other", "likely"),
    [
        ("São Paulo", "Sao Paulo", "same"),
        ("Sao Paulo", "São Paulo", "same"),
        ("Łódź", "Lodz", "same"),
        ("Zürich", "zuerich", "same"),
        ("Malmö", "Malmo", "same"),
        ("Nguyễn Văn An", "Nguyen Van An", "same"),
        ("Zurich", "Zuerich", "perhaps"),
        ("Xi'an", "Xian", "perhaps"),
        ("Apfel", "Äpfel", "perhaps"),
        ("schön", "schon", "perhaps"),
        ("La vita è bella", "La vita e bella", "other"),
        ("Canberra", "Sydney", "other"),
    ],
)
def test_accents_do_not_distinguish_names(name, other, likely):
    assert likeness(name, other) == likely


@pytest.mark.parametrize(("name", "text"), [("Łódź", "It is in Lodz."), ("Lodz", "It is in Łódź.")])
def test_name_matches_sentence_with_other_accents(name, text):
    assert stated(Slot(text=name), text) == "right"
    assert stated(Slot(text=name), text.replace("is in", "isn't in")) == "wrong"


def test_name_in_another_script_is_unreadable():
    assert stated(Slot(text="Москва"), "Moskva") == "unreadable"
    assert stated(Slot(text="Москва"), "unknown") == "wrong"


def test_field_may_have_other_accents():
    assert match_field(Matcher(equals="São Paulo"), "Sao Paulo") == "right"
    assert match_field(Matcher(equals="Москва"), "Moskva") == "unreadable"
