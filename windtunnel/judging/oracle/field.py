"""Whether a field of a side effect holds what the oracle asks for. Pure."""

from __future__ import annotations

from windtunnel.judging.oracle.slots import Matcher
from windtunnel.judging.reading.text import close, folded, numbers, quantity


def field_matches(matcher: Matcher, value: object) -> bool:
    """Whether a field's value is what the matcher asks for."""
    if matcher.contains is not None:
        text = folded(_text(value))
        return all(folded(part) in text for part in matcher.contains)
    if matcher.number is not None:
        return _holds_number(matcher, matcher.number, value)
    if matcher.any_of is not None:
        return any(_option_matches(matcher, option, value) for option in matcher.any_of)
    return _equal(matcher.equals, value)


def _holds_number(matcher: Matcher, expected: float, value: object) -> bool:
    there = numbers(_text(value), matcher.unit)
    return any(close(number, expected, matcher.tolerance) for number in there)


def _option_matches(matcher: Matcher, option: int | float | str, value: object) -> bool:
    with_tolerance = not isinstance(option, str) and matcher.tolerance is not None
    return _holds_number(matcher, float(option), value) if with_tolerance else _equal(option, value)


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
        amount = quantity(_text(value))
        return amount is not None and amount[1] is None and close(amount[0], expected, None)
    return folded(_text(expected)) == folded(_text(value))


def _text(value: object) -> str:
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)
