"""The queue between two toxics of a chain: a few chunks that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from wirefault.toxiproxy.toxics.pipe import Chunk


def wake_nobody() -> None:
    """The callback of a queue for which nobody waits."""


class Output(Protocol):
    """Where chunks are sent: a channel, or the connection's other end."""

    on_room: Callable[[], None]

    @property
    def full(self) -> bool:
        """Whether the sender must wait until ``on_room`` is called."""

    def put(self, chunk: Chunk) -> None:
        """Takes the chunk, full or not: a sender that is interrupted may not wait."""

    def end(self) -> None: ...


class Channel:
    """Holds ``capacity`` chunks, and the one of a sender that waits for room."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ended = False
        self.on_data: Callable[[], None] = wake_nobody
        self.on_room: Callable[[], None] = wake_nobody
        self._chunks: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    @property
    def full(self) -> bool:
        return len(self._chunks) > self.capacity

    def put(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self.on_data()

    def end(self) -> None:
        self.ended = True
        self.on_data()

    def take(self) -> Chunk:
        chunk = self._chunks.popleft()
        if not self.full:
            self.on_room()
        return chunk

    def pour(self, output: Output) -> None:
        """Passes on all chunks that wait, at once."""
        while self:
            output.put(self.take())
