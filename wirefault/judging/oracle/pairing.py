"""What is there against what was asked for: what is missing, too often, in its place or too much. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_Asked = TypeVar("_Asked")
_There = TypeVar("_There")


@dataclass(frozen=True)
class Pairing(Generic[_Asked, _There]):
    """``missing``: asked for and not there. ``again``: as asked, and more often. ``wrong``: one in the place
    of one that is missing, with it. ``extra``: what is left."""

    missing: list[_Asked]
    again: list[_There]
    wrong: list[tuple[_Asked, _There]]
    extra: list[_There]


def paired(
    asked: Sequence[_Asked],
    there: Sequence[_There],
    fits: Callable[[_Asked, _There], bool],
    alike: Callable[[_Asked, _There], bool],
) -> Pairing[_Asked, _There]:
    """``alike``: whether one could stand in the place of the other, not being as asked."""
    taken = largest_assignment(asked, there, fits)
    missing = [wanted for index, wanted in enumerate(asked) if index not in taken]
    used = set(taken.values())
    left = [thing for index, thing in enumerate(there) if index not in used]
    again = [thing for thing in left if any(fits(wanted, thing) for wanted in asked)]
    extra = [thing for thing in left if not any(fits(wanted, thing) for wanted in asked)]
    wrong: list[tuple[_Asked, _There]] = []
    for wanted in missing:
        instead = next((thing for thing in extra if alike(wanted, thing)), None)
        if instead is not None:
            extra.remove(instead)
            wrong.append((wanted, instead))
    return Pairing(missing, again, wrong, extra)


def largest_assignment(
    asked: Sequence[_Asked], there: Sequence[_There], fits: Callable[[_Asked, _There], bool]
) -> dict[int, int]:
    """As many of what was asked for as possible, each with one of what is there, by index (augmenting paths).

    Of several that fit, the first ones are taken.
    """
    owner: dict[int, int] = {}

    def place(slot: int, seen: set[int]) -> bool:
        for index, thing in enumerate(there):
            if index in seen or not fits(asked[slot], thing):
                continue
            seen.add(index)
            if index not in owner or place(owner[index], seen):
                owner[index] = slot
                return True
        return False

    for slot in range(len(asked)):
        place(slot, set())
    return {slot: index for index, slot in owner.items()}
