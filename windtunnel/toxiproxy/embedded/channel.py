"""What lies between two stages: chunks that wait, a few at most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from windtunnel.toxiproxy.embedded.stages.base import Chunk


def nobody() -> None:
    """There is nobody to wake."""


class Output(Protocol):
    """Where chunks are sent: a channel, or the connection's other end."""

    on_room: Callable[[], None]

    @property
    def full(self) -> bool:
        """Whether who sent must wait until ``on_room`` is called."""

    def put(self, chunk: Chunk) -> None:
        """Takes it, full or not: who must not wait need not."""

    def end(self) -> None: ...


class Channel:
    """Holds ``capacity`` chunks, and the one in the hand of a sender who waits for room."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ended = False
        self.on_data: Callable[[], None] = nobody
        self.on_room: Callable[[], None] = nobody
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
        """All that waits goes on at once."""
        while self:
            output.put(self.take())
