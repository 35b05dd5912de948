"""The world axis: the side effects that are there, held against those that were asked for. Pure.

Precedence where several apply: ``unknown``, ``duplicated``, ``wrong``, ``lost``, ``extra``. Unknown comes
first because nothing else can be said of a world that could not be read or may still change. A duplicate
comes next because the outcome ``duplicate`` does: it is the harm that retries do, and must not hide behind
another effect that is missing. Then what is missing, with (``wrong``) or without (``lost``) something in
its place, before what is merely too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from windtunnel.judging.oracle.expect import ExpectedEffect, Matcher, Oracle
from windtunnel.judging.oracle.text import close, folded, numbers, quantity

World = Literal["as_asked", "duplicated", "lost", "wrong", "extra", "unknown", "not_applicable"]
EffectRow = Mapping[str, Any]


@dataclass(frozen=True)
class WorldJudgement:
    """The axis, and in words what led to it."""

    axis: World
    why: str = ""


def judge_world(oracle: Oracle, effects: Sequence[EffectRow] | None, settled: bool) -> WorldJudgement:
    """``effects``: each a ``core.worlds.RecordedEffect`` as a dict; None if they could not be read."""
    if effects is None:
        return WorldJudgement("unknown", "the world could not be read")
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    if not effects and not oracle.effects:
        return WorldJudgement("not_applicable")
    return _compare(oracle.effects, effects)


def _compare(expected: Sequence[ExpectedEffect], effects: Sequence[EffectRow]) -> WorldJudgement:
    taken = assign(expected, effects)
    missing = [slot for index, slot in enumerate(expected) if index not in taken]
    left = [effect for index, effect in enumerate(effects) if index not in taken.values()]
    again = [effect for effect in left if any(matches(slot, effect) for slot in expected)]
    if again:
        return WorldJudgement("duplicated", f"{_kinds(again)} once more than asked")
    if missing:
        kinds = {slot.kind for slot in missing}
        wrong = [effect for effect in left if effect.get("kind") in kinds]
        if wrong:
            return WorldJudgement("wrong", f"{_kinds(wrong)} not as asked")
        return WorldJudgement("lost", f"{', '.join(slot.kind for slot in missing)} missing")
    if left:
        return WorldJudgement("extra", f"{_kinds(left)} not asked for")
    return WorldJudgement("as_asked")


def _kinds(effects: Sequence[EffectRow]) -> str:
    return ", ".join(str(effect.get("kind")) for effect in effects)


def assign(expected: Sequence[ExpectedEffect], effects: Sequence[EffectRow]) -> dict[int, int]:
    """The largest assignment of expected effects to actual ones, by index (augmenting paths)."""
    owner: dict[int, int] = {}

    def place(slot: int, seen: set[int]) -> bool:
        for index, effect in enumerate(effects):
            if index in seen or not matches(expected[slot], effect):
                continue
            seen.add(index)
            if index not in owner or place(owner[index], seen):
                owner[index] = slot
                return True
        return False

    for slot in range(len(expected)):
        place(slot, set())
    return {slot: index for index, slot in owner.items()}


def matches(expected: ExpectedEffect, effect: EffectRow) -> bool:
    """Whether the effect is of the expected kind and each named field holds what it must."""
    fields = effect.get("fields") or {}
    return effect.get("kind") == expected.kind and all(
        name in fields and field_matches(matcher, fields[name]) for name, matcher in expected.fields.items()
    )


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
