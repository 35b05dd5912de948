"""The chances of many armed faults for one try, drawn together. Pure."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from windtunnel.schedule import digest

_FACTOR, _NUMBER = 16, 8
_LANE = _FACTOR + _NUMBER


class Draws:
    """For one try a draw of 64 bits for each name, all together for about the price of one hash.

    A draw is the try's own hash (``number``, 64 bits) times the name's (128 bits, odd), modulo 2**128, of
    that the upper half: multiply-shift hashing (M. Dietzfelbinger and others, "A reliable randomized
    algorithm for the closest-pair problem", Journal of Algorithms 25, 1997). One multiplication of long
    numbers makes them all, and none depends on which others there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        factors = [int.from_bytes(digest(name, size=_FACTOR), "big") | 1 for name in names]
        lanes = b"".join(factor.to_bytes(_LANE, "little") for factor in factors)
        self._factors, self._size = int.from_bytes(lanes, "little"), len(lanes)
        self._upper = struct.Struct("<" + "8xQ8x" * len(factors)).unpack

    def of(self, number: int) -> tuple[int, ...]:
        """The draws of the try with that number, in the order of the names."""
        return self._upper((self._factors * number).to_bytes(self._size, "little"))


def chance_of(drawn: int) -> float:
    """A draw of 64 bits as a number in [0, 1), of its upper 53 bits."""
    return (drawn >> 11) / float(1 << 53)


def bound_of(probability: float) -> int:
    """``chance_of(drawn) < probability`` holds just where ``drawn`` is less than this."""
    return math.ceil(probability * (1 << 53)) << 11
