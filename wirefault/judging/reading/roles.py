"""Reduce an answer to what it states about its question. Pure.

Each number, day and time of an answer has roles: its JSON field or label ("Porto: 17 °C"), the thing that it
counts, and a value on some axes of the language files (``roles``): arrival or departure, per month or per
year, used or free. A question asks for at most one value of each axis. Mentions with another role are
removed, and so are quoted errors, status codes and numbers of attempts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from wirefault.judging.reading.context import (
    CLAUSE_END,
    COMPARED,
    NEGATED,
    WITHDRAWN_BEFORE,
    are_a_range,
    are_alternatives,
    clause_of,
    sentence_around,
)
from wirefault.judging.reading.counts import counted_things, with_counts
from wirefault.judging.reading.dates import days_in, times_in
from wirefault.judging.reading.languages import LazyPattern, is_common, languages
from wirefault.judging.reading.quantities import Quantity, Reading, lowered, quantities
from wirefault.judging.reading.units import converted

Span = tuple[int, int]

_MAX_MENTIONS = 200  # in one text; more is not an answer
_MIN_WORD = 3  # letters of a word that can tell labels apart
_STEM = 5  # letters that the forms of a word share
_NEAR = 40  # characters before and after a quotation or a number
_WORD = re.compile(r"[^\W\d_]+")
_QUOTATION = re.compile(
    r"\"(?:[^\"\\\n]|\\.){1,500}\"|“[^”\n]{1,500}”|«[^»\n]{1,500}»|`[^`\n]{1,500}`|(?<!\w)'[^'\n]{1,500}'(?!\w)"
)
_OBJECT = re.compile(r"\{[^{}]{0,1000}(?:\{[^{}]{0,500}\}[^{}]{0,500})?\}")
_ERROR_FIELD = re.compile(
    r"[\"'](?:errors?|exception|retry[-_]after|fault)[\"']\s*:\s*(?!null|none|false|\"\"|\[\])"
)
_TROUBLE = LazyPattern(r"\b<trouble>\b")
_CODE_BEFORE = LazyPattern(r"\b<code>\b[\s:=#\"']*$")
_ABOUT_CODES = LazyPattern(r"\b(?:<code>|<attempts>|id|<trouble>)\b")
_ID_BEFORE = re.compile(r"(?:[_ ]id|\bid|Id)[\"']?\s?[:=]\s?[\"']?$")
_TROUBLE_BEFORE = LazyPattern(r"\b<trouble>\s<since>\s(?:<approximate>\s)?$")
_ATTEMPTS_AFTER = LazyPattern(r"^[\s-]*(?:<more_attempts> )?<attempts>\b")
_FIELD = re.compile(r"[\"']([^\W\d][^\"'\n]{0,60})[\"']\s*:\s*[\"'\[]?[^\"',\n{}\[\]:]{0,40}$")
_LABEL = re.compile(r"(?:^|[\n.;,(|]\s*)(?=[^\W\d])([^:.;,\n|()\"]{2,40}):\s*[^:;\n|]{0,40}$")
_SEPARATOR = LazyPattern(r",(?!\d)|[.!?;)\n]\s|\s[-–—]+\s|—|\b<clause_end>\b")
_TEXT_FIELD = re.compile(
    r"[\"']([^\W\d][^\"'\n]{0,60})[\"']\s*:\s*[\"'][^\W\d]"
    r"|(?:^|[\n.;,(|]\s*)([^\W\d][^:.;,\n|()\"]{1,40}):\s(?=[^\W\d])"
)
_PAIR = re.compile(r"(?=\b([^\W\d_]{3,})\s([^\W\d_]{3,})\b)")
_CELL = re.compile(r"(?:^|\n)[ \t]*\|[ \t]*([^|\n]{1,40}?)[ \t]*\|[^\n]*$")
_SUBSIDIARY = LazyPattern(r"^[\s(]*<subsidiary>\b")
_PATH = re.compile(r"(?<![\w/.])/[\w.~-]+(?:/[\w.~-]*)*")
_ASIDES = frozenset({"rank", "extra", "trip"})
_OF_MOMENTS = "moment"  # axis of days and times only
_DASH_TO = re.compile(r"(?<=\w)-(?=\d)")
_RANGE_GAP = LazyPattern(r"^\s*(?:[-–—→]|->)\s*$")
_LIMIT_BEFORE = LazyPattern(r"\b<limit>(?: <limit_link>)*\s*$")
_BRACKET_GAP = LazyPattern(r"^(?:\s?[/\[]|[^,.;:()\d]{0,30}\()\s?(?:[~≈]|<approximate>\.? )?$")
_ROUNDED = 0.02  # of a conversion in brackets
_MULTIPLES: Mapping[str, tuple[float, ...]] = {"period": (12, 52, 365, 24, 7, 4), "trip": (2,)}
# roles that an answer means only if its question asks for them
_UNUSUAL: Mapping[str, frozenset[str]] = {
    "day": frozenset({"past", "future"}),
    "level": frozenset({"minimum", "maximum", "felt"}),
    "moment": frozenset({"end", "other"}),
    "extent": frozenset({"climb"}),
    "form": frozenset({"unpacked"}),
    "turn": frozenset({"last"}),
    "trip": frozenset({"return"}),
    "rank": frozenset({"second"}),
    "extra": frozenset({"cost", "part", "limit"}),
}


def without_errors(text: str, question: str = "") -> str:
    """Blank the quoted errors, codes, identifiers and numbers of attempts of a plain text.

    A question about them changes nothing.
    """
    if _ABOUT_CODES.search(lowered(question)):
        return text
    low = lowered(text)
    spans = [match.span() for match in _OBJECT.finditer(low) if _ERROR_FIELD.search(match[0])]
    spans += [match.span() for match in _PATH.finditer(low)]
    spans += [match.span() for match in _QUOTATION.finditer(low) if _is_error(low, *match.span())]
    places = [(each.start, each.end) for each in quantities(text)]
    places += [(each.start, each.end) for each in (*days_in(low), *times_in(low))]
    for start, end in places[:_MAX_MENTIONS]:
        before, after = low[max(0, start - _NEAR) : start], low[end : end + _NEAR]
        is_named = _CODE_BEFORE.search(before) or _ID_BEFORE.search(before)
        if is_named or _TROUBLE_BEFORE.search(before) or _ATTEMPTS_AFTER.match(after):
            spans.append((start, end))
    return _blanked(text, spans)


def _is_error(low: str, start: int, end: int) -> bool:
    return bool(_TROUBLE.search(low[start:end]))


def _blanked(text: str, spans: Iterable[Span]) -> str:
    for start, end in spans:
        end += bool(_DASH_TO.match(text, end))  # "10-12" without its 10 is not -12
        text = text[:start] + " " * (end - start) + text[end:]
    return text


@dataclass(frozen=True)
class OnQuestion:
    """An answer without the mentions that have another role than its question asks for."""

    text: str
    names_role: bool  # another mention, or a field, has the requested role
    usual: str  # without mentions whose role answers seldom mean, either
    has_aside: bool  # some of those are certainly not the answer
    named: str  # only with the mentions that have the requested role, if other ones have none


def on_question(text: str, question: str, phrases: Sequence[Span] = ()) -> OnQuestion:
    """Reduce a plain text to what it states about the question. ``phrases``: places of the oracle's text."""
    text, low_question = with_counts(text, question), lowered(question)
    low = lowered(text)
    amounts = quantities(text)
    moments = [(each.start, each.end) for each in (*days_in(low), *times_in(low, hours=True))]
    wanted = _asked_roles(low_question)
    if "hour" in wanted:  # "noon" is a role of other values
        moments = [(start, end) for start, end in moments if any(map(str.isdigit, low[start:end]))]
    spans = sorted({*((each.start, each.end) for each in amounts), *moments, *phrases})
    if not spans or len(spans) > _MAX_MENTIONS:
        return OnQuestion(text, False, text, False, text)
    roles = {span: _roles_at(low, span, spans) for span in spans}
    is_moved = any(WITHDRAWN_BEFORE.search(low[max(0, start - 2 * _NEAR) : start]) for start, _ in moments)
    for span in spans:
        if span not in moments or is_moved:  # "moved from 13:00 to 14:30" is not a begin and an end
            roles[span].pop(_OF_MOMENTS, None)
    if not is_moved:
        _set_ends(low, sorted(moments), roles, "open" if wanted.get(_OF_MOMENTS) == "open" else "begin")
    requested = {span for span, own in roles.items() if any(own.get(axis) == wanted[axis] for axis in wanted)}
    other = {
        span
        for span, own in roles.items()
        if any(own.get(axis, value) != value for axis, value in wanted.items())
    }
    is_named = bool(requested)
    counts = counted_things(low, amounts, low_question)
    uncounted = {span for span, hits in counts.items() if hits < max(counts.values())}
    labels = {span: _label_at(text, *span) for span in spans}
    if phrases:
        labels |= {field.span(): field[1] or field[2] for field in _TEXT_FIELD.finditer(text)}
    unasked = _with_other_label(labels, low_question) - (requested if phrases else set())
    other |= (unasked & set(spans)) | uncounted | _of_other_kind(low, spans, low_question)
    other |= _of_other_name(text, [span for span in spans if span not in other], question)
    is_named = is_named or (bool(unasked | uncounted or any(counts.values())) and not phrases)
    unusual = {
        span
        for span, own in roles.items()
        if _SUBSIDIARY.match(low[span[1] : span[1] + _NEAR])
        or any(value in _UNUSUAL.get(axis, ()) and axis not in wanted for axis, value in own.items())
    }
    if phrases and wanted:
        clauses = set(_other_clauses(low, wanted))
        other |= {
            clause for clause in clauses if not any(clause[0] <= start < clause[1] for start, _ in requested)
        }
        is_named = is_named or any(
            _axes()[axis][value].search(low.replace("_", " ")) for axis, value in wanted.items()
        )
    limits = _limits(low, sorted(set(moments) - other)) if wanted.get(_OF_MOMENTS) == "end" else ()
    reduced = _blanked(text, [*other, *limits])
    has_other = unusual < set(spans)
    asides = {span for span in unusual if roles[span].keys() & (_ASIDES - wanted.keys())}
    has_aside = bool(question and asides) and (has_other or bool(phrases))
    usual = _blanked(reduced, unusual) if has_other or has_aside else reduced
    only_named = reduced
    named = _with_all_roles(roles, wanted) - other
    if named and not phrases and not any(_are_open(low, *pair, named) for pair in pairwise(spans)):
        only_named = _blanked(reduced, set(spans) - named - other)
    return OnQuestion(reduced, is_named, usual, has_aside, only_named)


def _with_all_roles(roles: Mapping[Span, dict[str, str]], wanted: Mapping[str, str]) -> set[Span]:
    """Return the mentions that have each requested role that any mention has."""
    common = {
        axis: value for axis, value in wanted.items() if any(o.get(axis) == value for o in roles.values())
    }
    return {span for span, own in roles.items() if common and common.items() <= own.items()}


def _are_open(low: str, left: Span, right: Span, named: Collection[Span]) -> bool:
    """Return whether two mentions, one of them named, are alternatives or a range."""
    if (left in named) == (right in named):
        return False
    return are_alternatives(low, left[1], right[0]) or are_a_range(low, left[0], left[1], right[0])


def _set_ends(
    low: str, moments: Sequence[Span], roles: Mapping[Span, dict[str, str]], beginning: str
) -> None:
    """Make the ends of ``10:00 - 18:30`` a beginning and an end, unless words say otherwise."""
    for left, right in pairwise(moments):
        if _RANGE_GAP.match(low[left[1] : right[0]]) and roles[left].get(_OF_MOMENTS) in (
            None,
            "begin",
            beginning,
        ):
            roles[left][_OF_MOMENTS], roles[right][_OF_MOMENTS] = beginning, "end"


def _limits(low: str, moments: Sequence[Span]) -> Iterator[Span]:
    """Yield the words for a limit before the moments, if the limit is affirmed: ``until 31 August``."""
    for start, end in moments:
        before = clause_of(*sentence_around(low, start, end))[0]
        limit = _LIMIT_BEFORE.search(before)
        if limit and COMPARED.search(before) and not NEGATED.search(before[: limit.start()]):
            yield start - len(before) + limit.start(), start


def _other_clauses(low: str, wanted: Mapping[str, str]) -> Iterator[Span]:
    """Yield the clauses about another role than the requested one."""
    starts = [0, *(stop.end() for stop in CLAUSE_END.finditer(low)), len(low)]
    for start, end in pairwise(starts):
        clause = low[start:end].replace("_", " ")
        for axis, value in wanted.items():
            places = [name for name, pattern in _axes()[axis].items() if pattern.search(clause)]
            if places and value not in places:
                yield start, end


def _with_other_label(labels: Mapping[Span, str | None], question: str) -> set[Span]:
    """Return the places of labels that have fewer words of the question than others; else none."""
    words = _stems(question)
    stems = {span: _stems(label) for span, label in labels.items() if label}
    if not any(words & each for each in stems.values()):
        return set()
    shared = set.intersection(*stems.values())  # a word of all labels tells nothing apart
    hits = {span: len(words & each - shared) for span, each in stems.items()}
    return {span for span, count in hits.items() if count < max(hits.values())}


def _of_other_kind(low: str, spans: Sequence[Span], question: str) -> set[Span]:
    """Return the places about a thing with another adjective than the question's: ``a single ticket``."""
    wanted = {match[2]: match[1] for match in _PAIR.finditer(question) if not is_common(match[2])}
    kinds: dict[Span, bool] = {}
    for span in spans:
        clause = "\n".join(clause_of(*sentence_around(low, *span)))
        pairs = [match for match in _PAIR.finditer(clause) if match[2] in wanted and not is_common(match[1])]
        if pairs:
            kinds[span] = any(match[1] == wanted[match[2]] for match in pairs)
    return {span for span, is_same in kinds.items() if not is_same} if any(kinds.values()) else set()


def _of_other_name(text: str, spans: Sequence[Span], question: str) -> set[Span]:
    """Return the places in clauses with other names than the question's: ``May``, ``Dr Shah``, ``Lisbon``."""
    low, wanted = lowered(text), set(_names(question))
    names: dict[Span, set[str]] = {}
    for start, end in spans if wanted else ():
        after = clause_of(*sentence_around(low, start, end))[1]
        before = low[max((stop for _, stop in spans if stop <= start), default=0) : start]
        stops = [stop.end() for stop in _SEPARATOR.finditer(before)]
        behind = min((begin for begin, _ in spans if begin >= end), default=len(text))
        begin = start - len(before) + (stops[-1] if stops else 0)
        clause = f"{text[begin:start]} {text[end : min(end + len(after), behind)]}"
        names[start, end] = {*_names(clause), *(wanted & set(_WORD.findall(clause)))}
    if not any(wanted & each for each in names.values()):
        return set()
    return {span for span, each in names.items() if each and not wanted & each}


def _names(text: str) -> list[str]:
    """Return the words with a capital letter: not common ones, except within a sentence (``in May``)."""
    return [
        word[0]
        for word in _WORD.finditer(text)
        if word[0][0].isupper()
        and len(word[0]) > 2
        and (not is_common(lowered(word[0])) or text[max(0, word.start() - 2) : word.start() - 1].islower())
    ]


def _stems(text: str) -> set[str]:
    words = _WORD.findall(lowered(text).replace("_", " "))
    return {word[:_STEM].rstrip("s") for word in words if len(word) >= _MIN_WORD and not is_common(word)}


def _label_at(text: str, start: int, end: int) -> str | None:
    """Return the JSON field, the label or the first cell of the row of a mention; None without one."""
    before = text[max(0, start - 200) : start]
    for pattern in (_FIELD, _CELL, _LABEL):
        label = pattern.search(before)
        if label:
            return label[1]
    return None


def states_again(low: str, first: Quantity, second: Quantity) -> bool:
    """Return whether two amounts are one: 10 per month and 120 per year, ``12.5 km (7.8 mi)``."""
    if _BRACKET_GAP.match(low[first.end : second.start]) and _converts(first.readings[0], second.readings[0]):
        return True
    spans = sorted(((first.start, first.end), (second.start, second.end)))
    small, large = sorted(abs(each.readings[0].value) for each in (first, second))
    one, other = (_roles_at(low, span, spans) for span in spans)
    return small > 0 and any(
        one.get(axis) != other.get(axis)
        and any(math.isclose(large, small * ratio, rel_tol=0.01) for ratio in ratios)
        for axis, ratios in _MULTIPLES.items()
        if axis in one and axis in other
    )


def _converts(one: Reading, other: Reading) -> bool:
    """Return whether two amounts in different units are the same, rounded."""
    if (
        one.unit is None
        or other.unit is None
        or one.unit == other.unit
        or one.unit.dimension != other.unit.dimension
    ):
        return False
    if not (one.unit.converts and other.unit.converts) or one.unit.dimension.startswith("currency"):
        return False
    return math.isclose(converted(other.value, other.unit, one.unit), one.value, rel_tol=_ROUNDED)


@cache
def _axes() -> Mapping[str, Mapping[str, LazyPattern]]:
    """Return the patterns of each value of each axis, in all languages."""
    words: dict[str, dict[str, list[str]]] = {}
    for language in languages():
        for axis, values in language.get("roles", {}).items():
            for value, pattern in values.items():
                words.setdefault(axis, {}).setdefault(value, []).append(pattern)
    return {
        axis: {
            value: LazyPattern(rf"(?<![^\W_])(?:{'|'.join(patterns)})(?![^\W_])")
            for value, patterns in values.items()
        }
        for axis, values in words.items()
    }


def _asked_roles(question: str) -> Mapping[str, str]:
    """Return the value of each axis of which the question has exactly one."""
    places = {
        axis: [value for value, pattern in values.items() if pattern.search(question)]
        for axis, values in _axes().items()
    }
    return {axis: values[0] for axis, values in places.items() if len(values) == 1}


def _roles_at(low: str, span: Span, spans: Sequence[Span]) -> dict[str, str]:
    """Return the mention's value on each axis: the nearest in its clause."""
    before, after = clause_of(*sentence_around(low, *span))
    behind = min((start - span[1] for start, _ in spans if start >= span[1]), default=len(after))
    bracket = re.match(r"\s*\(([^()\d]{0,40})\)", low[span[1] : span[1] + 60])
    after = f"{after[:behind]} {bracket[1]}" if bracket else after[:behind]
    ahead = max((end for _, end in spans if end <= span[0]), default=0)
    before = before[max(0, len(before) - (span[0] - ahead)) :] if ahead else before
    return dict(_nearest(before.replace("_", " "), f"{after}\0"))  # "$" is the place of the mention


def _nearest(before: str, after: str) -> Iterator[tuple[str, str]]:
    for axis, values in _axes().items():
        places = [
            (
                len(text) - match.end() if text is before else match.start(),
                text is after,
                -len(match[0]),
                value,
            )
            for text in (before, after)
            for value, pattern in values.items()
            for match in pattern.finditer(text)
        ]
        if places:
            yield axis, min(places)[3]
