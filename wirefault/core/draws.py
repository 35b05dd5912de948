"""Keyed draws: every draw is a hash of what it is for, never a number of a shared random stream. Pure.

So a seed draws the same at 1 and at 32 workers, under retries and parallel calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring as quote
from typing import Any

from wirefault.core.digest import text_digest

_STEPS = float(1 << 53)


class KeyedDraws:
    """The draws of one try: each is fixed by the try's names, which are joined once, and by its purpose."""

    __slots__ = ("_names", "_number")

    def __init__(
        self, seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int
    ) -> None:
        quoted = f'{quote(episode)}, "{attempt}", {quote(link)}, {quote(fingerprint)}'
        self._names = f'["{seed}", {quoted}, "{call}", "{try_}"'
        self._number: int | None = None

    def number(self) -> int:
        """64 bits of a hash of the names alone, computed at the first call."""
        if self._number is None:
            self._number = int.from_bytes(text_digest(self._names + "]"), "big")
        return self._number

    def draw(self, purpose: str) -> float:
        """A number in [0, 1): 53 bits of a hash, as in ``random.random``."""
        return (int.from_bytes(text_digest(f"{self._names}, {quote(purpose)}]"), "big") >> 11) / _STEPS


def draw(
    seed: int, episode: str, attempt: int, link: str, fingerprint: str, call: int, try_: int, purpose: str
) -> float:
    """A number in [0, 1), fixed by its arguments."""
    return KeyedDraws(seed, episode, attempt, link, fingerprint, call, try_).draw(purpose)


def choose(number: float, options: Sequence[Any]) -> Any:
    """The option for a draw in [0, 1); all are equally likely."""
    return options[int(number * len(options))]
