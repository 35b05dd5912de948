"""What a client was sent of one reply, kept to be read once all of it has gone out."""

from __future__ import annotations

from collections.abc import Callable

from wirefault.dialects.http import Reply

MAX_KEPT = 4 << 20
Piece = tuple[float, bytes]
"""What went out at one time, on the clock of ``perf_counter``."""


class SentPieces:
    """The ``pieces``, none once they are more than 4 MiB.

    ``upstream``: the reply that came from the upstream, where a fault may have changed it and all of it came.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.upstream: Reply | None = None
        self._size = 0

    def keep(self, at: float, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MAX_KEPT:
            self.pieces.append((at, data))
        else:
            self.pieces.clear()

    def noting_upstream(self, remember: Callable[[Reply], None] | None) -> Callable[[Reply], None]:
        """Takes the upstream's reply, and gives it to ``remember`` too."""

        def note(reply: Reply) -> None:
            self.upstream = reply
            if remember is not None:
                remember(reply)

        return note
