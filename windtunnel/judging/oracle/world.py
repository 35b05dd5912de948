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

from windtunnel.judging.oracle.expect import ExpectedEffect, Oracle
from windtunnel.judging.oracle.field import field_matches

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
