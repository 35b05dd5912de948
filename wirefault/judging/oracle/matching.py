"""Match a field, a JSON value or a list against the oracle's expectation. Pure.

A value that cannot be read is ``unreadable``, never ``wrong``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from wirefault.judging.oracle.slots import MATCHER_KEYS, MOMENT_KEYS, Matcher
from wirefault.judging.reading.amounts import asked_number, stated_number
from wirefault.judging.reading.context import Stated
from wirefault.judging.reading.names import in_other_scripts, likeness
from wirefault.judging.reading.numbers import number_of
from wirefault.judging.reading.stated import on_topic, stated_phrase, states_text
from wirefault.judging.reading.text import close, folded, is_garbled, plain, tolerance_of

Match = Literal["right", "unreadable", "wrong"]
_WORST_FIRST: tuple[Match, ...] = ("wrong", "unreadable", "right")


def match_field(matcher: Matcher, value: object, literal: bool = False, task: str = "") -> Match:
    """Compare a field's value with the expected one. A number must be stated as true, in its unit.

    ``literal``: ``contains`` searches for the text, whatever the field states about it. ``task``: the prompt,
    which tells what a text is about.
    """
    if matcher.contains is not None:
        return _worst(_contains(part, value, literal) for part in matcher.contains)
    if matcher.number is not None:
        return _states_number(matcher, matcher.number, value, task)
    moment = matcher.date or matcher.time
    if moment is not None:
        seen = plain(_text(value))
        return _as_match(on_topic(lambda part: stated_phrase(moment, part), seen, task))
    if matcher.any_of is not None:
        return _best(_match_option(matcher, option, value, literal, task) for option in matcher.any_of)
    return _equal(matcher.equals, value)


def _worst(matches: Iterable[Match]) -> Match:
    return min(matches, key=_WORST_FIRST.index, default="right")


def _best(matches: Iterable[Match]) -> Match:
    return max(matches, key=_WORST_FIRST.index, default="wrong")


def _as_match(verdict: Stated) -> Match:
    return "wrong" if verdict == "none" else verdict


def _contains(part: str, value: object, literal: bool) -> Match:
    if isinstance(value, list):
        return _best(_contains(part, item, literal) for item in value)
    text = _text(value)
    if literal:
        return "right" if folded(part) in folded(text) else _as_match(states_text(text, part))
    return _as_match(states_text(text, part))


def _states_number(matcher: Matcher, expected: int | float, value: object, task: str) -> Match:
    # without a unit in the oracle any unit matches, since the field implies the quantity
    number = asked_number(expected, matcher.unit, tolerance_of(expected, matcher.tolerance))
    text = _text(value)
    verdict = _as_match(on_topic(lambda part: stated_number([number], part), plain(text), task))
    return "unreadable" if verdict == "wrong" and is_garbled(text) else verdict


def _match_option(
    matcher: Matcher, option: int | float | str | Matcher, value: object, literal: bool, task: str
) -> Match:
    if isinstance(option, Matcher):
        return match_field(option, value, literal, task)
    if isinstance(option, str) and not literal and isinstance(value, str):
        # the whole text is expected; a text that states it may mean the same
        match = _equal(option, value)
        return "unreadable" if match == "wrong" and states_text(value, option) == "right" else match
    if isinstance(option, str) or (matcher.tolerance is None and matcher.unit is None):
        return _equal(option, value)
    return _states_number(matcher, option, value, task)


def _equal(expected: object, value: object) -> Match:
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return "wrong"
        return _worst(map(_equal, expected, value))
    if isinstance(expected, bool) or isinstance(value, bool) or expected is None or value is None:
        return "right" if expected is value else "wrong"
    text = _text(value)
    if isinstance(expected, int | float):
        return _equal_number(expected, text)
    likely = likeness(_text(expected), text)
    if likely == "same":
        return "right"
    other_script = bool(text.strip()) and in_other_scripts(_text(expected), text)
    return "wrong" if likely == "other" and not other_script and not is_garbled(text) else "unreadable"


def _equal_number(expected: int | float, text: str) -> Match:
    number = number_of(text.strip())
    if number is not None:
        return "right" if close(number, expected, None) else "wrong"
    stated = stated_number([asked_number(expected, None, None)], plain(text))
    return "unreadable" if stated in ("right", "unreadable") else "wrong"  # "three" is not 3 to a program


def _text(value: object) -> str:
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


def match_json(expected: Any, value: Any, literal: bool = False) -> Match:
    """Compare a JSON value with the expected one, at any depth; ``literal`` as in ``match_field``.

    An object is matched by the expected fields, a list item by item, and anything else like a field of a side
    effect: a plain value, or ``{"contains": ...}``, ``{"number": x, "tolerance": t}``, ``{"any_of": [...]}``.
    """
    if isinstance(expected, Mapping):
        if isinstance(value, Mapping):  # an object may have fields with a matcher's names
            if expected.keys() == {"equals"} and "equals" not in value:
                return match_json(expected["equals"], value, literal)
            return _worst(
                match_json(expected[name], value[name], literal) if name in value else "wrong"
                for name in expected
            )
        if expected and expected.keys() <= MATCHER_KEYS:
            return _match_matcher(expected, value, literal)
        return "wrong"
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return "wrong"
        return _worst(match_json(*pair, literal) for pair in zip(expected, value, strict=True))
    if isinstance(value, Mapping | list):
        return "wrong"
    return match_field(Matcher(equals=expected), value)


def _match_matcher(expected: Mapping[str, Any], value: Any, literal: bool) -> Match:
    if expected.keys() == MOMENT_KEYS:  # one text may state both
        return _worst(_match_matcher({name: expected[name]}, value, literal) for name in expected)
    try:
        return match_field(Matcher.model_validate(dict(expected)), value, literal)
    except ValidationError:
        return "wrong"


_ExpectedT = TypeVar("_ExpectedT")
_ActualT = TypeVar("_ActualT")


@dataclass(frozen=True)
class Pairing(Generic[_ExpectedT, _ActualT]):
    """The comparison of expected and actual items."""

    missing: list[_ExpectedT]
    again: list[_ActualT]  # expected, but repeated
    wrong: list[tuple[_ExpectedT, _ActualT]]  # a missing item with its wrong replacement
    extra: list[_ActualT]  # all others
    unreadable: list[tuple[_ExpectedT, _ActualT]]  # a missing item with a replacement that may be right
    unread: bool  # all items are as expected if the unreadable ones are


def paired(
    expected: Sequence[_ExpectedT],
    actual: Sequence[_ActualT],
    match: Callable[[_ExpectedT, _ActualT], Match],
    alike: Callable[[_ExpectedT, _ActualT], bool],
    others_allowed: bool = False,
) -> Pairing[_ExpectedT, _ActualT]:
    """Pair expected and actual items. ``alike``: whether an unexpected item may replace an expected one."""

    def fits(one: _ExpectedT, thing: _ActualT) -> bool:
        return match(one, thing) == "right"

    assigned = largest_assignment(expected, actual, fits)
    missing = [thing for index, thing in enumerate(expected) if index not in assigned]
    used = set(assigned.values())
    left = [thing for index, thing in enumerate(actual) if index not in used]
    again = [thing for thing in left if any(fits(one, thing) for one in expected)]
    extra = [thing for thing in left if not any(fits(one, thing) for one in expected)]
    pairs: list[tuple[_ExpectedT, _ActualT]] = []
    for one in missing:
        instead = next((thing for thing in extra if alike(one, thing)), None)
        if instead is not None:
            extra.remove(instead)
            pairs.append((one, instead))
    wrong = [pair for pair in pairs if match(*pair) == "wrong"]
    unreadable = [pair for pair in pairs if pair not in wrong]
    unread = bool(missing) and may_all_fit(expected, actual, match, others_allowed)
    return Pairing(missing, again, wrong, extra, unreadable, unread)


def may_all_fit(
    expected: Sequence[_ExpectedT],
    actual: Sequence[_ActualT],
    match: Callable[[_ExpectedT, _ActualT], Match],
    others_allowed: bool = False,
) -> bool:
    """Whether all items are as expected if the unreadable ones are."""
    if len(actual) < len(expected) or (len(actual) > len(expected) and not others_allowed):
        return False
    assigned = largest_assignment(expected, actual, lambda one, thing: match(one, thing) != "wrong")
    return len(assigned) == len(expected)


def largest_assignment(
    expected: Sequence[_ExpectedT],
    actual: Sequence[_ActualT],
    fits: Callable[[_ExpectedT, _ActualT], bool],
) -> dict[int, int]:
    """Assign actual items to as many expected ones as possible, by index (augmenting paths).

    If several fit, the first are assigned.
    """
    owner: dict[int, int] = {}

    def place(slot: int, visited: set[int]) -> bool:
        for index, thing in enumerate(actual):
            if index in visited or not fits(expected[slot], thing):
                continue
            visited.add(index)
            if index not in owner or place(owner[index], visited):
                owner[index] = slot
                return True
        return False

    for slot in range(len(expected)):
        place(slot, set())
    return {slot: index for index, slot in owner.items()}
