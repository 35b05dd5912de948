"""What a text says of a phrase, a day or a time of day that was asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from windtunnel.judging.reading.affirmed import (
    Affirmation,
    is_background,
    offers_alternative,
    sentence_around,
    status_at,
)
from windtunnel.judging.reading.dates import DayOrTime, days_in, is_clock, is_day, same_day, times_in
from windtunnel.judging.reading.patterns import LazyPattern
from windtunnel.judging.reading.quantities import lowered
from windtunnel.judging.reading.text import compared_words, folded
from windtunnel.judging.reading.verdict import Stated

_TOO_MANY = 200  # moments or places in one text: it is no answer to anything
_NONE_OF_IT = LazyPattern(r"\b(?:no|kein\w*|aucun\w*|ning\w+|nessun\w*)\s+[\"']?$")
_BESIDE = LazyPattern(r"\b(?:while|whereas|während|tandis que|mientras)\s[^,]*$")
_RELATIVE = LazyPattern(
    r"\b(?:today|tomorrow|yesterday|tonight|(?:next|this|last|coming) \w+|in \w+ (?:days?|weeks?)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|heute|morgen|demain|mañana|domani"
    r"|at (?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))\b"
)


def stated_phrase(option: str, text: str) -> Stated:
    """What a plain text says of a phrase, a day (``2026-03-12``) or a time of day (``14:30``)."""
    if is_day(option):
        return _stated_moment(text, lambda low: list(days_in(low)), lambda reading: same_day(option, reading))
    if is_clock(option):
        return _stated_moment(
            text, lambda low: list(times_in(low, hours=True)), lambda reading: reading == option
        )
    return _stated_words(option, text)


def _stated_moment(text: str, find: Callable[[str], list[DayOrTime]], fits: Callable[[str], bool]) -> Stated:
    low = lowered(text)
    moments = find(low)
    if len(moments) > _TOO_MANY:
        return "unreadable"
    if not moments:
        return "unreadable" if _RELATIVE.search(low) or re.search(r"\d", low) else "none"
    right: list[tuple[DayOrTime, Affirmation]] = []
    wrong: list[tuple[DayOrTime, Affirmation]] = []
    for moment in moments:
        status = status_at(low, moment.start, moment.end)
        (right if any(fits(reading) for reading in moment.readings) else wrong).append((moment, status))
    if any(status == "affirmed" for _, status in right):
        return "unreadable" if any(status == "affirmed" for _, status in wrong) else "right"
    if any(status == "doubtful" for _, status in right):
        return "unreadable"
    return "wrong" if wrong else "none"


def _stated_words(option: str, text: str) -> Stated:
    wanted = compared_words(option)
    if not wanted:
        return "right" if option.strip() and option.strip() in text else ("wrong" if text.strip() else "none")
    low = lowered(text)
    places = occurrences_of(wanted, text)[:_TOO_MANY]
    statuses = [_status(low, start, end, option) for start, end in places]
    if "affirmed" in statuses:
        return "right"
    if "doubtful" in statuses:
        return "unreadable"
    if not compared_words(text):
        return "none"
    return "wrong"


def _status(low: str, start: int, end: int, option: str) -> Affirmation:
    if _NONE_OF_IT.search(low[max(0, start - 15) : start]):
        return "denied"
    if _BESIDE.search(sentence_around(low, start, end)[0]):
        return "doubtful"
    status = status_at(low.replace("?", " ") if "?" in option else low, start, end)
    whole = not low[:start].strip(" \"'.,!?¡¿(") and not low[end:].strip(" \"'.,!?)")
    if whole:
        return "affirmed"
    if status == "affirmed" and (offers_alternative(low, start, end) or is_background(low, start, end)):
        return "doubtful"
    return status


def occurrences_of(wanted: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where the words stand in the text, one after the other, whatever punctuation parts them."""
    there = [(match.start(), match.end(), folded(match[0])) for match in re.finditer(r"[^\W_]+", text)]
    flat = [word for _, _, word in there]
    size, first = len(wanted), wanted[0]
    places = [
        (there[at][0], there[at + size - 1][1])
        for at, word in enumerate(flat)
        if word == first and flat[at : at + size] == list(wanted)
    ]
    return places or ([] if text.isascii() else _among_other_letters(" ".join(wanted), text))


def _among_other_letters(phrase: str, text: str) -> list[tuple[int, int]]:
    """Where a phrase stands in a text that parts its words by nothing, as Japanese does."""
    latin = "A-Za-z0-9À-ɏ"
    pattern = rf"(?<![{latin}]){re.escape(phrase)}(?![{latin}])"
    if not any("\u3040" <= character <= "\u9fff" for character in text):
        return []
    return [match.span() for match in re.finditer(pattern, lowered(text))]
