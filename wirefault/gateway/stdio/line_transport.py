"""The socket that the HTTP client of one exchange of lines would have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class TransportOwner(Protocol):
    """What becomes of the connection that the transport stands for."""

    def after_writing(self) -> None:
        """Something was written: called in a later turn."""

    def on_close(self) -> None:
        """It would be closed now."""

    def on_abort(self, *, reset: bool) -> None:
        """It would be ended at once, by a reset if a fault wants that."""


class LineTransport(asyncio.Transport):
    """Gives ``feed`` what is written, and tells its owner how it ends."""

    def __init__(self, feed: Callable[[bytes], None], owner: TransportOwner) -> None:
        super().__init__()
        self._feed = feed
        self._owner = owner
        self._closing = self._resets = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._feed(bytes(data))
            asyncio.get_running_loop().call_soon(self._owner.after_writing)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._owner.on_close()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._owner.on_abort(reset=self._resets)

    def write_eof(self) -> None:
        """The attempt is over, and nothing is left of the exchange."""
        self.abort()

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """There is nothing more to read."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def setsockopt(self, *_: object) -> None:
        """As of a socket: only a connection that is to be reset is given an option."""
        self._resets = True
