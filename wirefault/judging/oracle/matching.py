"""Match a field, a JSON value or a list against the oracle's expectation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from wirefault.judging.oracle.slots import MATCHER_KEYS, Matcher
from wirefault.judging.reading.amounts import asked_number, stated_number
from wirefault.judging.reading.context import Stated
from wirefault.judging.reading.numbers import number_of
from wirefault.judging.reading.quantities import is_unknown_language
from wirefault.judging.reading.stated import stated_phrase
from wirefault.judging.reading.text import close, folded, plain, tolerance_of


def field_matches(matcher: Matcher, value: object, lenient: bool = False) -> bool:
    """Tell whether a field's value matches. A number must be affirmed, in its unit.

    ``lenient``: a text in a language that the reader does not know matches too.
    """
    if matcher.contains is not None:
        text = folded(_text(value))
        return all(folded(part) in text for part in matcher.contains)
    if matcher.number is not None:
        return _holds_number(matcher, matcher.number, value, lenient)
    moment = matcher.date or matcher.time
    if moment is not None:
        text = plain(_text(value))
        return _is_right(stated_phrase(moment, text), text, lenient)
    if matcher.any_of is not None:
        return any(_option_matches(matcher, option, value, lenient) for option in matcher.any_of)
    return _equal(matcher.equals, value)


def _holds_number(matcher: Matcher, expected: int | float, value: object, lenient: bool) -> bool:
    # without a unit in the oracle any unit matches, since the field implies the quantity
    number = asked_number(expected, matcher.unit, tolerance_of(expected, matcher.tolerance))
    text = plain(_text(value))
    return _is_right(stated_number([number], text), text, lenient)


def _is_right(verdict: Stated, text: str, lenient: bool) -> bool:
    return verdict == "right" or (lenient and verdict == "unreadable" and is_unknown_language(text))


def _option_matches(matcher: Matcher, option: int | float | str, value: object, lenient: bool) -> bool:
    if isinstance(option, str) or (matcher.tolerance is None and matcher.unit is None):
        return _equal(option, value)
    return _holds_number(matcher, option, value, lenient)


def _equal(expected: object, value: object) -> bool:
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return False
        return all(map(_equal, expected, value))
    if isinstance(expected, bool) or isinstance(value, bool) or expected is None or value is None:
        return expected is value
    if isinstance(expected, int | float):
        number = number_of(_text(value).strip())
        return number is not None and close(number, expected, None)
    return folded(_text(expected)) == folded(_text(value))


def _text(value: object) -> str:
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


def json_matches(expected: Any, value: Any, lenient: bool = False) -> bool:
    """Tell whether a JSON value has all that is expected, at any depth; ``lenient`` as in ``field_matches``.

    An object is matched by the expected fields, a list item by item, and anything else like a field of a side
    effect: a plain value, or ``{"contains": ...}``, ``{"number": x, "tolerance": t}``, ``{"any_of": [...]}``.
    """
    if isinstance(expected, Mapping):
        if isinstance(value, Mapping):  # an object may have fields with a matcher's names
            if expected.keys() == {"equals"} and "equals" not in value:
                return json_matches(expected["equals"], value, lenient)
            return all(
                name in value and json_matches(expected[name], value[name], lenient) for name in expected
            )
        return bool(expected) and expected.keys() <= MATCHER_KEYS and _fits_matcher(expected, value, lenient)
    if isinstance(expected, list):
        same_length = isinstance(value, list) and len(value) == len(expected)
        return same_length and all(json_matches(*pair, lenient) for pair in zip(expected, value, strict=True))
    return not isinstance(value, Mapping | list) and field_matches(Matcher(equals=expected), value)


def _fits_matcher(expected: Mapping[str, Any], value: Any, lenient: bool) -> bool:
    try:
        return field_matches(Matcher.model_validate(dict(expected)), value, lenient)
    except ValidationError:
        return False


_ExpectedT = TypeVar("_ExpectedT")
_ActualT = TypeVar("_ActualT")


@dataclass(frozen=True)
class Pairing(Generic[_ExpectedT, _ActualT]):
    """Expected things against actual ones."""

    missing: list[_ExpectedT]
    again: list[_ActualT]  # as expected, but more often
    wrong: list[tuple[_ExpectedT, _ActualT]]  # a missing one, and the one in its place
    extra: list[_ActualT]  # the rest


def paired(
    expected: Sequence[_ExpectedT],
    actual: Sequence[_ActualT],
    fits: Callable[[_ExpectedT, _ActualT], bool],
    alike: Callable[[_ExpectedT, _ActualT], bool],
) -> Pairing[_ExpectedT, _ActualT]:
    """Pair them. ``alike``: whether an actual thing that does not fit may replace an expected one."""
    assigned = largest_assignment(expected, actual, fits)
    missing = [thing for index, thing in enumerate(expected) if index not in assigned]
    used = set(assigned.values())
    left = [thing for index, thing in enumerate(actual) if index not in used]
    again = [thing for thing in left if any(fits(one, thing) for one in expected)]
    extra = [thing for thing in left if not any(fits(one, thing) for one in expected)]
    wrong: list[tuple[_ExpectedT, _ActualT]] = []
    for one in missing:
        instead = next((thing for thing in extra if alike(one, thing)), None)
        if instead is not None:
            extra.remove(instead)
            wrong.append((one, instead))
    return Pairing(missing, again, wrong, extra)


def largest_assignment(
    expected: Sequence[_ExpectedT],
    actual: Sequence[_ActualT],
    fits: Callable[[_ExpectedT, _ActualT], bool],
) -> dict[int, int]:
    """As many expected things as possible, each with an actual one, by index (augmenting paths).

    Of several that fit, the first ones are assigned.
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
