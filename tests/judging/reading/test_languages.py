import re
from pathlib import Path

import pytest

from tests.judging.oracle.histories import message_sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.oracle.world import judge_world
from wirefault.judging.reading import units
from wirefault.judging.reading.languages import english_words, is_foreign, languages
from wirefault.judging.reading.quantities import cldr_scales
from wirefault.judging.reading.stated import stated

READING = Path("wirefault/judging/reading")
DEGREES = {"number": 8.4, "unit": "celsius", "tolerance": 0.05}


@pytest.mark.parametrize(
    "text",
    [
        "It is cloudy in Paris.",
        "In Łódź it is cold, in São Paulo it is warm.",
        "Bewölkt in Oslo, mit etwas Regen.",
        "Le ciel est couvert à Paris.",
        "El cielo está cubierto en Oslo.",
        "The capital is Tokyo (東京).",
        '"Good morning" in Italian is "è una bella giornata".',
        "12 old men and women, in a van",
        "Łódź",
        "light wind, clear sky",
        "",
    ],
)
def test_texts_in_known_languages_and_names_are_readable(text):
    assert not is_foreign(text)


@pytest.mark.parametrize(
    "text",
    [
        "Il cielo è coperto.",
        "A resposta não é essa.",
        "Het is op dit moment koud.",
        "W Oslo jest zimno, nie pada.",
        "Столица",
        "巴黎目前多云",
    ],
)
def test_sentences_in_other_languages_are_recognised(text):
    assert is_foreign(text)


@pytest.mark.parametrize("text", ["A Oslo ci sono {} gradi.", "パリの気温は{}度です。", "Сейчас {} °C."])
@pytest.mark.parametrize(("number", "says"), [("8,4", "right"), ("9,4", "unreadable")])
def test_sentence_in_other_language_is_never_wrong(text, number, says):
    assert stated(Slot.model_validate(DEGREES), text.format(number)) == says


@pytest.mark.parametrize(
    "text",
    [
        "A Oslo non ci sono 8,4 gradi.",
        "Gisteren was het 8,4 graden.",
        "最高気温は8.4度です。",
        "Наверное, 8,4 °C.",
    ],
)
def test_word_of_doubt_in_other_language_is_unreadable(text):
    assert stated(Slot.model_validate(DEGREES), text) == "unreadable"


@pytest.mark.parametrize("text", ["8,4 stopni Celsjusza", "8.4摄氏度", "8,4 gradi Celsius"])
def test_units_are_read_in_every_language_of_cldr(text):
    assert stated(Slot.model_validate(DEGREES), text) == "right"


def test_no_foreign_unit_or_number_begins_with_a_common_english_word():
    """Behind a number, such a word is read without CLDR's words, which are slow to load."""
    names = [*units._foreign_words()[0], *cldr_scales()[0]]
    begins = {word[0] for name in names if (word := re.match(r"[^\W\d_]{2,}", name))}
    assert len(begins) > 900 and not begins & english_words()


@pytest.mark.parametrize(("text", "phrase"), [("Ciao!", "ciao"), ("È bello così", "è bello così")])
def test_exact_text_is_right_in_any_language(text, phrase):
    assert stated(Slot.model_validate({"text": phrase}), text) == "right"


@pytest.mark.parametrize(
    ("body", "world"), [("La temperatura è di 9,4 °C", "unknown"), ("The temperature is 9.4 °C", "wrong")]
)
def test_message_in_other_language_leaves_world_unknown(body, world):
    fields = {"to": "Bob", "body": DEGREES}
    oracle = parse_expect({"effects": [{"kind": "message_sent", "fields": fields}]})
    assert judge_world(oracle, [message_sent(body=body)], True).axis == world


def test_each_language_file_has_every_part():
    parts = {"name", "common", "numbers", "units", "topics", "clock", "cues"}
    assert all(parts <= set(language) for language in languages())
    assert [language["name"] for language in languages()] == ["English", "German", "Spanish", "French"]


def test_language_files_have_no_cue_that_nothing_reads():
    code = "".join(path.read_text(encoding="utf-8") for path in READING.glob("*.py"))
    cues = {name for language in languages() for name in language["cues"]}
    assert not [name for name in cues if f"<{name}>" not in code]
