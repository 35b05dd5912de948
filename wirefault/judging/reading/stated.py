"""Read the statement of prose about one value of an oracle: a number, a phrase, a day, a time. Pure.

A value counts only if the text affirms it: with a fitting unit, not negated, not corrected later and not
one of several alternatives. A text that cannot be read is ``unreadable``, never ``wrong``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from wirefault.judging.reading import dates
from wirefault.judging.reading.context import (
    FORMERLY,
    Affirmation,
    Stated,
    clause_has,
    is_background,
    last_retraction,
    offers_alternative,
    says_nothing,
    sentence_around,
    status_at,
)
from wirefault.judging.reading.counts import lists_counted_things
from wirefault.judging.reading.dates import DayOrTime
from wirefault.judging.reading.languages import LazyPattern, has_foreign_doubt
from wirefault.judging.reading.names import Likeness, in_other_scripts, likeness
from wirefault.judging.reading.numbers import in_digits
from wirefault.judging.reading.quantities import is_unknown_language, lowered
from wirefault.judging.reading.roles import on_question, without_errors
from wirefault.judging.reading.text import bare, compared_words, folded, is_garbled, plain

if TYPE_CHECKING:
    from wirefault.judging.reading.amounts import AskedNumber

__all__ = ["AskedValue", "Stated", "denies", "stated", "stated_in"]

_BEST_FIRST: tuple[Stated, ...] = ("right", "unreadable", "wrong", "none")
_MAX_TEXT = 100_000  # characters of one text that are read


class AskedValue(Protocol):
    """One value of an oracle (``oracle.slots.Slot``); each option is right."""

    @property
    def options(self) -> Sequence[int | float | str]: ...

    @property
    def unit(self) -> str | None: ...

    @property
    def tolerance(self) -> int | float | None: ...


def stated(slot: AskedValue, text: str, question: str = "") -> Stated:
    """Read a text's statement of the slot's value; ``none``: the text has no value of its kind."""
    return stated_in(slot, text, None, question=question)


def stated_in(
    slot: AskedValue,
    text: str,
    unit: str | None,
    besides: Sequence[AskedValue] = (),
    question: str = "",
) -> Stated:
    """Read like ``stated``; numbers without a unit in the text are in ``unit``.

    ``besides``: other slots, whose values the same text may have. ``question``: what the text answers.
    """
    seen = plain(text[:_MAX_TEXT])
    phrases = [place for option in _texts(slot) for place in occurrences_of(compared_words(option), seen)]
    whole = _stated_in(slot, text, unit, besides)
    if whole == "none" and lists_counted_things(text, question):
        return "unreadable"
    return on_topic(lambda part: _stated_in(slot, part, unit, besides), seen, question, phrases, whole)


def on_topic(
    read: Callable[[str], Stated],
    text: str,
    question: str,
    phrases: Sequence[tuple[int, int]] = (),
    whole: Stated | None = None,
) -> Stated:
    """Read a plain text, and correct the verdict by its parts about the question.

    A value that only other parts have is unreadable. ``phrases``: places of the oracle's text. ``whole``: the
    verdict of the whole text, if it is known.
    """
    whole = read(text) if whole is None else whole
    stated_text = without_errors(text, question)
    if stated_text != text and whole in ("right", "unreadable"):
        whole = "right" if read(stated_text) == "right" else "unreadable"
    part = on_question(stated_text, question, phrases[:_MAX_PLACES])
    if part.text != stated_text:
        verdict = read(part.text)
        is_certain = verdict == "right" or (verdict == "wrong" and (part.names_role or whole == "wrong"))
        is_rewritten = len(part.text) != len(stated_text)  # "six members" as digits
        if is_certain or is_rewritten or (whole, verdict) != ("right", "unreadable"):
            whole = verdict if is_certain else "unreadable"  # perhaps the value of something else
    if (whole == "unreadable" or (whole == "right" and part.has_aside)) and part.usual != part.text:
        whole = "right" if read(part.usual) == "right" else "unreadable"
    if whole == "unreadable" and part.named != part.text and read(part.named) == "right":
        return "right"
    return whole


def _texts(slot: AskedValue) -> list[str]:
    return [option for option in slot.options if isinstance(option, str) and compared_words(option)]


def _stated_in(slot: AskedValue, text: str, unit: str | None, besides: Sequence[AskedValue]) -> Stated:
    from wirefault.judging.reading.amounts import stated_number

    seen = plain(text[:_MAX_TEXT])
    texts = [option for option in slot.options if isinstance(option, str)]
    # an oracle may ask for invisible parts: an address, a piece of markup
    verdicts = [
        stated_phrase(option, seen if plain(option) == option else text[:_MAX_TEXT], unit) for option in texts
    ]
    wanted = _numbers(slot)
    if wanted:
        others = [number for other in besides for number in _numbers(other)]
        verdicts.append(stated_number(wanted, seen, others, unit))
    verdict = best_of(verdicts)
    return "unreadable" if verdict != "right" and is_garbled(text[:_MAX_TEXT]) else verdict


def denies(slot: AskedValue, text: str) -> bool:
    """Return whether a text has the slot's value only where it denies it: ``The capital is not Canberra.``

    Days and times of day are not looked for.
    """
    from wirefault.judging.reading.amounts import denies_number

    seen = plain(text[:_MAX_TEXT])
    low = lowered(seen)
    places = [
        place
        for option in slot.options
        if isinstance(option, str)
        for place in occurrences_of(compared_words(option), seen)[:_MAX_PLACES]
    ]
    statuses = {status_at(low, *place) for place in places}
    if is_garbled(seen) or is_unknown_language(seen, places):
        return False
    numbers = _numbers(slot)
    return statuses == {"denied"} or (not statuses and bool(numbers) and denies_number(numbers, seen))


def best_of(verdicts: Iterable[Stated]) -> Stated:
    """Return the best of several verdicts."""
    return min(verdicts, key=_BEST_FIRST.index, default="none")


def _numbers(slot: AskedValue) -> list[AskedNumber]:
    from wirefault.judging.reading.amounts import asked_number

    return [
        asked_number(option, slot.unit, slot.tolerance)
        for option in slot.options
        if not isinstance(option, str)
    ]


_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 5000  # of one text in which a name with other accents is searched
_MAX_PLACES = 200  # of moments or phrases in one text; more is not an answer
_NONE_OF_IT = LazyPattern(r"\b<none_of_it>\s+[\"']?$")
_MEANWHILE = LazyPattern(r"\b<meanwhile>\s[^,]*$")
_OF_SOMETHING_ELSE = LazyPattern(r"<of_something_else>\s+[\"']?$")
_OWNER = LazyPattern(r"^[\"']?<owner>")
_RELATIVE = LazyPattern(r"\b<relative_day>\b")
# a number without a month or minutes may be a day, an hour, or seconds since 1970
_PART_OF_A_DAY = LazyPattern(r"(?<!\d)(?:\d{1,2}|\d{5,})(?!\d|th\b)")
_PART_OF_A_CLOCK = LazyPattern(r"(?<!\d)(?:\d{1,2}|[012]\d[0-5]\d)(?!\d|th\b)")
_BEFORE_BRACKET = LazyPattern(r"^\s?(?:[a-z]{1,5}|<clock_oclock>)?\s?[(/,]\s?$")
_ZONE_AFTER = LazyPattern(r"^\s?(?:<clock_oclock>\s)?<zone>\b")
_END_OR_LIMIT = LazyPattern(r"(?:\b<limit>(?: <limit_link>)*|[-–—])[: ]*$")


def stated_phrase(option: str, text: str, unit: str | None = None) -> Stated:
    """Read a plain text's statement of a phrase, a day (``2026-03-12``) or a time of day (``14:30``).

    ``unit``: the report's unit for the text, for example ``PM``.
    """
    verdict, places = _stated_phrase(option, text, unit)
    if not is_unknown_language(text, places):
        return verdict
    # in an unknown language only a day or time without a word of doubt is certain
    is_plain = verdict == "right" and _is_moment(option) and not has_foreign_doubt(lowered(text))
    return "right" if is_plain else "unreadable"


def _stated_phrase(option: str, text: str, unit: str | None) -> tuple[Stated, list[tuple[int, int]]]:
    """Return the verdict, and the places of the phrase."""
    moment = _as_moment(option)
    if not _is_moment(option):
        wanted = compared_words(option)
        return _stated_words(option, text), occurrences_of(wanted, text) if wanted else []
    low = in_digits(lowered(f"{text} {unit}" if unit else text))
    if dates.is_day(moment):
        unread = bool(_PART_OF_A_DAY.search(low))
        days = list(dates.days_in(low))
        return _stated_moment(low, days, lambda reading: dates.same_day(moment, reading), unread), []
    spans = [(day.start, day.end) for day in dates.days_in(low)]
    unread = any(
        not any(start <= part.start() < end for start, end in spans)
        for part in islice(_PART_OF_A_CLOCK.finditer(low), _MAX_PLACES)
    )
    times = list(dates.times_in(low, hours=True))
    verdict = _stated_moment(low, times, lambda reading: reading == moment, unread)
    if verdict == "wrong" and any(_may_be_afternoon(low, each, moment) for each in times):
        verdict = "unreadable"
    return verdict, []


def _may_be_afternoon(low: str, time: DayOrTime, moment: str) -> bool:
    """Return whether ``4:15`` may be the requested 16:15; ``04:15`` and ``4:15 am`` are not."""
    hour, minutes = int(moment[:2]), moment[2:]
    text = low[time.start : time.end]
    after = low[time.end : time.end + 20]
    return text.strip() == f"{hour - 12}{minutes}" and not dates.has_half_of_day(after)


def _is_moment(option: str) -> bool:
    moment = _as_moment(option)
    return dates.is_day(moment) or dates.is_clock(moment)


def _as_moment(option: str) -> str:
    """Return a day or a time of day in ISO form; other phrases are unchanged."""
    for normalised in (dates.normalised_day, dates.normalised_clock) if re.search(r"\d", option) else ():
        try:
            return normalised(option)
        except ValueError:
            continue
    return option


def _stated_moment(low: str, moments: list[DayOrTime], fits: Callable[[str], bool], unread: bool) -> Stated:
    """Decide by the days or times in the text. ``unread``: digits may be one in an unknown form."""
    if len(moments) > _MAX_PLACES:
        return "unreadable"
    if not moments:
        return "unreadable" if unread or _RELATIVE.search(low) else "none"
    right: list[tuple[DayOrTime, Affirmation]] = []
    wrong: list[tuple[DayOrTime, Affirmation]] = []
    for moment in sorted(moments, key=lambda each: each.start):
        is_right = any(fits(reading) for reading in moment.readings)
        (right if is_right else wrong).append((moment, status_at(low, moment.start, moment.end)))
    if wrong:
        right = [(each, _among_others(low, each, status)) for each, status in right]
    retraction = last_retraction(low)
    if retraction:
        later = [each for each in (*right, *wrong) if each[0].start >= retraction and each[1] == "affirmed"]
        if any(each[1] == "affirmed" for each in right) and not later:
            return "unreadable"
        if later:
            right = [each for each in right if each[0].start >= retraction]
            wrong = [each for each in wrong if each[0].start >= retraction]
    affirmed = [each for each, status in right if status == "affirmed"]
    now = [each for each in affirmed if not is_background(low, each.start, each.end)]
    if affirmed:
        rivals = [
            each
            for each, status in wrong
            if status == "affirmed"
            and not (now and is_background(low, each.start, each.end))
            and not any(_is_same_elsewhere(low, own, each) for own in affirmed)
            and not (
                each.start > affirmed[0].start
                and _END_OR_LIMIT.search(low[max(0, each.start - 30) : each.start])
            )
        ]
        return "unreadable" if rivals else "right"
    if any(status == "doubtful" for _, status in right):
        return "unreadable"
    return "wrong" if moments else "none"


def _is_same_elsewhere(low: str, own: DayOrTime, other: DayOrTime) -> bool:
    """Return whether a time in brackets is the same one in another zone: ``18:25 BST (17:25 UTC)``."""
    return bool(
        _BEFORE_BRACKET.match(low[own.end : other.start]) and _ZONE_AFTER.match(low[other.end :][:20])
    )


def _among_others(low: str, moment: DayOrTime, status: Affirmation) -> Affirmation:
    is_open = status == "affirmed" and offers_alternative(low, moment.start, moment.end)
    return "offered" if is_open else status


def _stated_words(option: str, text: str, in_message: bool = False) -> Stated:
    """Decide by the places of the words. ``in_message``: a guess is unreadable, a forecast a statement."""
    wanted = compared_words(option)
    if not wanted:
        return "right" if option.strip() and option.strip() in text else ("wrong" if text.strip() else "none")
    low = lowered(text)
    places = occurrences_of(wanted, text)[:_MAX_PLACES]
    alike = [] if places else _alike_occurrences(option, len(wanted), text)[:_MAX_PLACES]
    statuses = [_status(low, start, end, option, in_message) for start, end in places]
    statuses += [
        _no_better(likely, _status(low, start, end, option, in_message)) for start, end, likely in alike
    ]
    ends = [end for _, end in places] or [end for _, end, _ in alike]
    retraction = last_retraction(low)
    if any(status == "affirmed" and end > retraction for status, end in zip(statuses, ends, strict=True)):
        return "right"
    if "affirmed" in statuses or "doubtful" in statuses:
        return "unreadable"
    if "offered" in statuses:
        return "unreadable" if in_message else "wrong"
    there = compared_words(text)
    if "," in text and len(wanted) > 1 and there == [wanted[-1], *wanted[:-1]]:  # Lovelace, Ada
        return "right"
    if not places and in_other_scripts(option, text) and not says_nothing(low):
        return "unreadable"
    return "wrong" if there else "none"


def states_text(text: str, phrase: str) -> Stated:
    """Read whether a message states a phrase: ``wrong`` if it is missing or denied.

    A question or a guess is unreadable: a message may ask.
    """
    if bare(phrase) == bare(text):
        return "right"
    seen = plain(text[:_MAX_TEXT])
    seen = seen if plain(phrase) == phrase else text[:_MAX_TEXT]
    wanted = compared_words(phrase)
    verdict = _stated_words(phrase, seen, in_message=True)
    places = occurrences_of(wanted, seen) if wanted else []
    if is_garbled(text[:_MAX_TEXT]) or is_unknown_language(seen, places):
        return "right" if verdict == "right" and not is_unknown_language(seen, places) else "unreadable"
    return verdict


def _no_better(likely: Likeness, status: Affirmation) -> Affirmation:
    return "doubtful" if likely == "perhaps" and status == "affirmed" else status


def _status(low: str, start: int, end: int, option: str, in_message: bool) -> Affirmation:
    if _NONE_OF_IT.search(low[max(0, start - 15) : start]):
        return "denied"
    if _MEANWHILE.search(sentence_around(low, start, end)[0]):
        return "doubtful"
    status = status_at(low.replace("?", " ") if "?" in option else low, start, end)
    whole = not low[:start].strip(" \"'.,!?¡¿(") and not low[end:].strip(" \"'.,!?)")
    if whole:
        return "affirmed"
    if status != "affirmed":
        return status
    if offers_alternative(low, start, end):
        return "doubtful" if "/" in low[max(0, start - 2) : start] + low[end : end + 2] else "offered"
    others = _OF_SOMETHING_ELSE.search(low[max(0, start - 80) : start]) or _OWNER.match(low[end : end + 60])
    is_aside = clause_has(FORMERLY, low, start, end) if in_message else is_background(low, start, end)
    return "doubtful" if others or is_aside else "affirmed"


def occurrences_of(wanted: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Find the words in the text in sequence, with any punctuation between them."""
    there = [(match.start(), match.end(), folded(match[0])) for match in re.finditer(r"[^\W_]+", text)]
    flat = [word for _, _, word in there]
    size, first = len(wanted), wanted[0]
    places = [
        (there[at][0], there[at + size - 1][1])
        for at, word in enumerate(flat)
        if word == first and flat[at : at + size] == list(wanted)
    ]
    return places or ([] if text.isascii() else _among_other_letters(" ".join(wanted), text))


def _alike_occurrences(option: str, size: int, text: str) -> list[tuple[int, int, Likeness]]:
    """Find a name with other accents or spaces: ``Sao Paulo``, ``Xian``. ``size``: words of the option."""
    there = [(match.start(), match.end(), match[0]) for match in islice(_WORD.finditer(text), _MAX_WORDS)]
    name = " ".join(_WORD.findall(option))
    windows = [there[at : at + length] for length in {size, 1, 2} for at in range(len(there) - length + 1)]
    alike = (
        (each[0][0], each[-1][1], likeness(name, " ".join(word for _, _, word in each))) for each in windows
    )
    return [each for each in alike if each[2] != "other"]


def _among_other_letters(phrase: str, text: str) -> list[tuple[int, int]]:
    """Find a phrase in a text without spaces between words, such as Japanese."""
    latin = "A-Za-z0-9À-ɏ"
    pattern = rf"(?<![{latin}]){re.escape(phrase)}(?![{latin}])"
    if not any("\u3040" <= character <= "\u9fff" for character in text):
        return []
    return [match.span() for match in re.finditer(pattern, lowered(text))]
