"""Whether a command behind a tap was started at all: what runs before it may fail in its place."""

from __future__ import annotations

import os
from types import TracebackType

from wirefault.subjects.taps.tap import Tap


class TapEntry:
    """One start of a command. ``told``: the descriptor that the tap is handed, None if it needs none.

    A context manager that closes what it has opened.
    """

    def __init__(self, tap: Tap) -> None:
        self._heard: int | None = None
        self.told: int | None = None
        if tap.must_be_entered:
            self._heard, self.told = os.pipe()
            os.set_blocking(self._heard, False)

    def __enter__(self) -> TapEntry:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for descriptor in (self._heard, self.told):
            if descriptor is not None:
                os.close(descriptor)
        self._heard = self.told = None

    def was_made(self) -> bool:
        """Whether the command has begun until now."""
        if self._heard is None:
            return True
        try:
            return bool(os.read(self._heard, 1))
        except BlockingIOError:
            return False
