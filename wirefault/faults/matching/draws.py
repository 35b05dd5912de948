"""The chances of many armed faults for one try, drawn together. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

from wirefault.core.digest import digest

_FACTOR, _NUMBER = 16, 8  # bytes
_SLOT = _FACTOR + _NUMBER
_DRAW = (1 << 64) - 1


class Draws:
    """For one try a draw of 64 bits for each name, all of them in about the time of one hash.

    A draw is the try's own hash (``number``, 64 bits) times the name's (128 bits, odd), modulo 2**128, of
    that the upper half: multiply-shift hashing (M. Dietzfelbinger and others, "A reliable randomized
    algorithm for the closest-pair problem", Journal of Algorithms 25, 1997). One multiplication of long
    numbers makes them all, in a slot of 24 bytes each, and none depends on which others there are.

    ``below`` gives the draws that are less than their ``bounds``.
    """

    def __init__(self, names: Iterable[str], bounds: Sequence[int]) -> None:
        self._bounds = bounds
        self._factors = _side_by_side(int.from_bytes(digest(name, size=_FACTOR), "big") | 1 for name in names)
        # in each slot: the bits of the draw, the bit above them, and in the draw's place what a draw that
        # reaches its bound lacks of that bit
        self._draws = _side_by_side(_DRAW << 64 for _ in bounds)
        self._carries = _side_by_side(1 << 128 for _ in bounds)
        self._missing = _side_by_side(((1 << 64) - bound) << 64 for bound in bounds)
        self._upper = struct.Struct("<" + "8xQ8x" * len(bounds)).unpack

    def below(self, number: int) -> Sequence[tuple[int, int]]:
        """The place and the draw of each that is less than its bound, for the try with that number."""
        products = self._factors * number
        # one addition compares all: a draw that is not less than its bound carries into the bit above it
        if (products & self._draws) + self._missing & self._carries == self._carries:
            return ()
        draws = self._upper(products.to_bytes(_SLOT * len(self._bounds), "little"))
        pairs = enumerate(zip(draws, self._bounds, strict=True))
        return [(place, draw) for place, (draw, bound) in pairs if draw < bound]


def _side_by_side(values: Iterable[int]) -> int:
    """One long number with a slot for each value, the first in its lowest bytes."""
    return int.from_bytes(b"".join(value.to_bytes(_SLOT, "little") for value in values), "little")


def chance_of(draw: int) -> float:
    """A draw of 64 bits as a number in [0, 1), of its upper 53 bits."""
    return (draw >> 11) / float(1 << 53)


def bound_of(probability: float) -> int:
    """``chance_of(draw) < probability`` holds just where ``draw`` is less than this."""
    return math.ceil(probability * (1 << 53)) << 11
