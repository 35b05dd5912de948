"""Whether a field of a side effect holds what the oracle asks for. Pure."""

from __future__ import annotations

from wirefault.judging.oracle.slots import Matcher
from wirefault.judging.reading.amounts import asked_number, stated_number
from wirefault.judging.reading.numbers import number_of
from wirefault.judging.reading.stated import stated_phrase
from wirefault.judging.reading.text import close, folded, plain, tolerance_of


def field_matches(matcher: Matcher, value: object) -> bool:
    """Whether a field's value is what the matcher asks for. A number must be affirmed, in its unit."""
    if matcher.contains is not None:
        text = folded(_text(value))
        return all(folded(part) in text for part in matcher.contains)
    if matcher.number is not None:
        return _holds_number(matcher, matcher.number, value)
    moment = matcher.date or matcher.time
    if moment is not None:
        return stated_phrase(moment, plain(_text(value))) == "right"
    if matcher.any_of is not None:
        return any(_option_matches(matcher, option, value) for option in matcher.any_of)
    return _equal(matcher.equals, value)


def _holds_number(matcher: Matcher, expected: int | float, value: object) -> bool:
    # without a unit in the oracle any unit will do: the field itself says what it is about
    asked = asked_number(expected, matcher.unit, tolerance_of(expected, matcher.tolerance))
    return stated_number([asked], plain(_text(value))) == "right"


def _option_matches(matcher: Matcher, option: int | float | str, value: object) -> bool:
    if isinstance(option, str) or (matcher.tolerance is None and matcher.unit is None):
        return _equal(option, value)
    return _holds_number(matcher, option, value)


def _equal(expected: object, value: object) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_equal(*pair) for pair in zip(expected, value, strict=True))
        )
    if isinstance(expected, bool) or isinstance(value, bool) or expected is None or value is None:
        return expected is value
    if isinstance(expected, int | float):
        number = number_of(_text(value).strip())
        return number is not None and close(number, expected, None)
    return folded(_text(expected)) == folded(_text(value))


def _text(value: object) -> str:
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)
