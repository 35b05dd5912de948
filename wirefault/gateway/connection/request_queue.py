"""The bytes of requests that wait for their turn on one client connection, and the cutting of heads. Pure."""

from __future__ import annotations

from wirefault.gateway.http1.heads import RequestHead, find_head

_LONG = 64 * 1024


class RequestQueue:
    """``waiting``: the bytes of requests not yet begun; ``arrived``: when their first came."""

    def __init__(self) -> None:
        self.waiting = b""
        self.arrived = 0.0

    @property
    def is_long(self) -> bool:
        """Whether so many bytes wait that the client should stop sending."""
        return len(self.waiting) > _LONG

    def add(self, data: bytes, now: float) -> None:
        if self.waiting:
            self.waiting += data
        else:
            self.waiting, self.arrived = data, now

    def next_head(self) -> RequestHead | None:
        """Takes the next request's head out; None if it is not whole yet. Raises ``BadHead``."""
        head, self.waiting = find_head(self.waiting)
        return head

    def take_all(self) -> bytes:
        """Takes out all that waits."""
        waiting, self.waiting = self.waiting, b""
        return waiting
