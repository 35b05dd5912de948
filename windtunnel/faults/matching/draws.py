"""The chances of many armed faults for one try, drawn together. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

from windtunnel.core.digest import digest

_FACTOR, _NUMBER = 16, 8  # bytes
_LANE = _FACTOR + _NUMBER
_DRAW = (1 << 64) - 1


class Draws:
    """For one try a draw of 64 bits for each name, all together for about the price of one hash.

    A draw is the try's own hash (``number``, 64 bits) times the name's (128 bits, odd), modulo 2**128, of
    that the upper half: multiply-shift hashing (M. Dietzfelbinger and others, "A reliable randomized
    algorithm for the closest-pair problem", Journal of Algorithms 25, 1997). One multiplication of long
    numbers makes them all, a lane of 24 bytes each, and none depends on which others there are.

    ``below`` gives those draws that are less than their ``bounds``.
    """

    def __init__(self, names: Iterable[str], bounds: Sequence[int]) -> None:
        self._bounds = bounds
        self._factors = _lanes(int.from_bytes(digest(name, size=_FACTOR), "big") | 1 for name in names)
        # in each lane: where the draw is, the bit above it, and there what it is held against
        self._draws = _lanes(_DRAW << 64 for _ in bounds)
        self._guards = _lanes(1 << 128 for _ in bounds)
        self._limits = _lanes(bound << 64 for bound in bounds)
        self._upper = struct.Struct("<" + "8xQ8x" * len(bounds)).unpack

    def below(self, number: int) -> Sequence[tuple[int, int]]:
        """The place and the draw of each that is less than its bound, for the try with that number."""
        lanes = self._factors * number
        # all compared in one subtraction: a draw that is less than its bound takes the bit above it
        compared = (lanes & self._draws | self._guards) - self._limits
        if compared & self._guards == self._guards:
            return ()
        draws = self._upper(lanes.to_bytes(_LANE * len(self._bounds), "little"))
        held = enumerate(zip(draws, self._bounds, strict=True))
        return [(place, draw) for place, (draw, bound) in held if draw < bound]


def _lanes(values: Iterable[int]) -> int:
    """Numbers side by side in a long one, the first in its lowest bytes."""
    return int.from_bytes(b"".join(value.to_bytes(_LANE, "little") for value in values), "little")


def chance_of(draw: int) -> float:
    """A draw of 64 bits as a number in [0, 1), of its upper 53 bits."""
    return (draw >> 11) / float(1 << 53)


def bound_of(probability: float) -> int:
    """``chance_of(draw) < probability`` holds just where ``draw`` is less than this."""
    return math.ceil(probability * (1 << 53)) << 11
