"""Which of the side effects that are there is which of those that were asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.judging.oracle.expect import ExpectedEffect
from wirefault.judging.oracle.field import field_matches
from wirefault.judging.oracle.pairing import largest_assignment

EffectRow = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class EffectInWorld:
    """One side effect as it counts in the world.

    ``row`` is a ``core.worlds.RecordedEffect`` as a dict, ``place`` its index in the log. ``whole`` is False
    for a deletion of which a part has been put back: it is not what anybody asked for.
    """

    row: EffectRow
    place: int
    whole: bool = True

    @property
    def kind(self) -> str:
        return str(self.row.get("kind"))

    @property
    def fields(self) -> Mapping[str, Any]:
        fields = self.row.get("fields")
        return fields if isinstance(fields, Mapping) else {}


def in_log(rows: Sequence[EffectRow]) -> list[EffectInWorld]:
    """The side effects as they were logged, each for itself."""
    return [EffectInWorld(row, place) for place, row in enumerate(rows)]


def assign(expected: Sequence[ExpectedEffect], effects: Sequence[EffectInWorld]) -> dict[int, int]:
    """The largest assignment of expected effects to actual ones, by index."""
    return largest_assignment(expected, effects, matches)


def matches(expected: ExpectedEffect, effect: EffectInWorld) -> bool:
    """Whether the effect is whole, of the expected kind, and each named field holds what it must."""
    return effect.whole and effect.kind == expected.kind and not wrong_fields(expected, effect)


def wrong_fields(expected: ExpectedEffect, effect: EffectInWorld) -> list[str]:
    """The named fields that do not hold what they must."""
    fields = effect.fields
    return [
        name
        for name, matcher in expected.fields.items()
        if name not in fields or not field_matches(matcher, fields[name])
    ]
