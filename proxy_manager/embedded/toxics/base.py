"""What a toxic is on the wire: a stage in the chain of one direction of one connection.

Stages push: data comes in by ``feed`` and its end by ``feed_eof``; they go on to ``self.output``, at once
or when a timer fires. A stage that has closed its output drops what still comes.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


@dataclass(slots=True)
class Chunk:
    """Bytes with the time (s) at which they came in, which stages that delay move on."""

    data: bytes
    time: float


class Output(Protocol):
    """Where a stage sends what it lets pass: the next stage, or the end of the link."""

    def feed(self, chunk: Chunk) -> None: ...

    def feed_eof(self) -> None: ...


class Context(Protocol):
    """What a stage may use of its connection."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer: ...

    def hold(self, chunk: Chunk) -> None:
        """A stage keeps this chunk: counted, so that the source is paused in time."""

    def release(self, chunk: Chunk) -> None:
        """A stage no longer keeps this chunk."""


class Stage:
    """One toxic on one direction of one connection. ``attributes`` is the toxic's own, live mapping.

    Subclasses name their ``fields`` as the API has them, in order; all default to 0.
    """

    kind: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    def __init__(self, attributes: Mapping[str, int], context: Context, output: Output) -> None:
        self.attributes = attributes
        self.context = context
        self.output = output
        self.closed = False

    @classmethod
    def on_accept(cls, sockets: tuple[socket.socket, socket.socket]) -> None:
        """Called for each new connection that this toxic meets, with both of its sockets."""

    def start(self) -> None:
        """The stage begins to work; called again after each ``interrupt``, as the real server does."""

    def feed(self, chunk: Chunk) -> None:
        """Data came in."""
        self.output.feed(chunk)

    def feed_eof(self) -> None:
        """The input has ended, after all that was fed."""
        self.close()

    def interrupt(self) -> None:
        """The chain changes here: let go of the chunk in hand, keep the rest."""

    def remove(self) -> bool:
        """The toxic is removed: pass on all that is held, at once and in order.

        False: what has begun must run to its end, the stage stays in the chain until then.
        """
        return True

    def kill(self) -> None:
        """The connection is gone: forget everything, cancel timers."""
        self.closed = True

    def close(self) -> None:
        """Ends the output, once."""
        if not self.closed:
            self.closed = True
            self.output.feed_eof()


def milliseconds(value: int) -> float:
    """In seconds."""
    return value / 1000
