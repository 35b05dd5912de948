"""Read how many of something an answer counts: ``no open tickets``, ``18 of 240 messages``, lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile

from wirefault.judging.reading.context import clause_of, sentence_around
from wirefault.judging.reading.languages import LazyPattern, is_common
from wirefault.judging.reading.numbers import written_numbers
from wirefault.judging.reading.quantities import Quantity, lowered

_MAX_MENTIONS = 200  # in one text; more is not an answer
_STEM = 5  # letters that the forms of a word share
_NEAR = 40  # characters before and after a number
_WORD = re.compile(r"[^\W\d_]+")
_TROUBLE = LazyPattern(r"\b<trouble>\b")
_COUNTING = LazyPattern(r"\b<how_many>\b(?P<things>[^?.\n]{1,80})")
_NOTHING_OF = LazyPattern(r"\b<no_things>(?=\s)(?!\s<no_other>\b)")
_NOTHING_FIRST = LazyPattern(r"^\W*(?:<none_at_all>)(?=\s*(?:$|[.,;:!—–-]))")
_COUNTED = re.compile(r"^[\s*_]{1,3}([^\W\d_]+)")
_THERE_IS_NONE = LazyPattern(r"\b<there_is_none>(?!\s<no_other>\b)\s")
_OF_ALL = LazyPattern(r"^\s<out_of>\s(?:\w+\s){0,2}?\d")
_IN_TOTAL = LazyPattern(r"^\s<in_total>\b")
_PART_OF = LazyPattern(r"(?:\d\s<out_of>|\b<out_of_all>)\s(?:\w+\s){0,2}?$")
_OF_WHICH = LazyPattern(r"^\s<of_them>(?:\s<copula>)?(?=\s)")
_LIST_LINE = re.compile(r"(?m)^[ \t]*(?:[*•·▪◦–-]|\d{1,2}[.)])[ \t]+\S")


def with_counts(text: str, question: str) -> str:
    """Write counts of the question's things in digits: ``no open tickets``, ``seven invoices``, ``None.``"""
    low, things = lowered(text), _things(lowered(question))
    if not things:
        return text
    places = [
        (n.start, n.end, n.value)
        for n in islice(written_numbers(low), _MAX_MENTIONS)
        if _hits(low, n.end, things)
    ]
    places += [
        (match.start(), match.end(), 0.0)
        for match in _NOTHING_OF.finditer(low)
        if _hits(low, match.end(), things) and not _fails(low, match.span(), question)
    ]
    first = _NOTHING_FIRST.match(low)
    if first and not _TROUBLE.search(low):
        places.append((first.start(), first.end(), 0.0))
    for start, end, value in sorted(set(places), reverse=True):
        if value.is_integer() and not any(character.isdigit() for character in text[start:end]):
            text = f"{text[:start]}{int(value)}{text[end:]}"
    return text


def counted_things(low: str, amounts: list[Quantity], question: str) -> dict[tuple[int, int], int]:
    """Return how well each number without a unit counts the question's things; numbers that may be left out.

    They are the question's words after "how many".
    """
    things = _things(question)
    counts: dict[tuple[int, int], int] = {}
    for amount in amounts if things else ():
        after = low[amount.end : amount.end + 60]
        span = (amount.start, amount.end)
        if _PART_OF.search(low[max(0, amount.start - _NEAR) : amount.start]):
            counts[span] = 0
        elif hits := _hits(low, amount.end, things):
            counts[span] = hits
        elif any(reading.unit for reading in amount.readings):
            counts[span] = 0
        elif _OF_ALL.match(after):
            counts[span] = len(things) + 1
        elif _IN_TOTAL.match(after) or ((word := _COUNTED.match(after)) and not is_common(word[1])):
            counts[span] = 0
    if any(
        counts[each.start, each.end] and not each.readings[0].value
        for each in amounts
        if (each.start, each.end) in counts
    ):
        counts = {
            (each.start, each.end): 0 for each in amounts
        } | counts  # "no open tickets, all 7 are closed"
    return counts


def lists_counted_things(text: str, question: str) -> bool:
    """Return whether a list without a number answers how many of something there are."""
    return bool(_things(lowered(question))) and len(_LIST_LINE.findall(text)) > 1


def counts_other_than_denied(low: str, quantity: Quantity) -> bool:
    """Return whether a text denies a thing, and the number names none: ``There is no mail; 3 were read.``"""
    counted = _COUNTED.match(low[quantity.end :][:_NEAR])
    is_bare = all(reading.unit is None for reading in quantity.readings) and not (
        counted and not is_common(counted[1])
    )
    return is_bare and bool(_THERE_IS_NONE.search(low))


def _hits(low: str, end: int, things: Sequence[str]) -> int:
    """Return how many of the three words after a number name the things; adjectives count double."""
    after = clause_of("", _OF_WHICH.sub("", low[end : end + 60]))[1]
    words = {word[:_STEM].rstrip("s") for word in _WORD.findall(after)[:3]}
    return sum(2 - (thing == things[-1]) for thing in things if thing in words)


def _things(question: str) -> list[str]:
    """Return the stems of the things that a question counts: its words up to the first common one."""
    counting = _COUNTING.search(question)
    words = _WORD.findall(counting["things"])[:5] if counting else []
    return [word[:_STEM].rstrip("s") for word in takewhile(lambda word: not is_common(word), words)]


def _fails(low: str, span: tuple[int, int], question: str) -> bool:
    """Return whether the sentence reports trouble that its question does not ask about: ``failed jobs``."""
    sentence, question = "".join(sentence_around(low, *span)), lowered(question)
    return any(match[0] not in question for match in _TROUBLE.finditer(sentence))
