"""One direction of one connection: a chain of stages from its source to its destination."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Handle, Transport
from collections.abc import Callable, Iterable

from proxy_manager.embedded.collection import ArmedToxic
from proxy_manager.embedded.toxics.base import Chunk, Stage, Timer

# What a direction keeps at most before it stops reading: as many chunks as the real server, and bytes.
MAX_CHUNKS = 1024
MAX_BYTES = 4 * 2**20


class ExactTimer:
    """A timer that is never early: the event loop's own clock is cached and counts whole milliseconds."""

    def __init__(self, loop: AbstractEventLoop, when: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._handle = self._arm()

    def cancel(self) -> None:
        self._handle.cancel()

    def _arm(self) -> Handle:
        left = self._when - time.monotonic()
        if left <= 0:
            return self._loop.call_soon(self._fire)
        return self._loop.call_later(max(left, 0.001), self._fire)

    def _fire(self) -> None:
        if time.monotonic() < self._when:
            self._handle = self._arm()
        else:
            self._callback()


class Link:
    """Carries data from ``source`` to ``destination``; with no stages straight through.

    When the chain closes, the destination is closed once all is written. That ends the other direction's
    source, so that it closes in its turn, as in the real server (which therefore has no half-closed
    connections: a client that shuts down its sending side loses the reply).
    """

    def __init__(
        self, loop: AbstractEventLoop, source: Transport, destination: Transport, toxics: Iterable[ArmedToxic]
    ) -> None:
        self._loop = loop
        self._source = source
        self._destination = destination
        self._stages: list[tuple[ArmedToxic, Stage]] = []
        self._ended = False  # the source has ended
        self._closed = False  # the destination is closed, or gone
        self._held_bytes = 0
        self._held_chunks = 0
        self._blocked = False  # the destination's buffer is full
        self._paused = False  # the source is told to wait
        for toxic in toxics:
            self.add(toxic)

    # the source's side

    def receive(self, data: bytes) -> None:
        if self._stages:
            self._stages[0][1].feed(Chunk(data, time.monotonic()))
        elif not self._closed:
            self._destination.write(data)

    def end(self) -> None:
        """The source sent its end, or is gone."""
        if self._ended:
            return
        self._ended = True
        if self._stages:
            self._stages[0][1].feed_eof()
        else:
            self.feed_eof()

    # the destination's side: this object is the output of the last stage

    def feed(self, chunk: Chunk) -> None:
        if not self._closed:
            self._destination.write(chunk.data)

    def feed_eof(self) -> None:
        if not self._closed:
            self._closed = True
            self._destination.close()

    def block(self) -> None:
        self._blocked = True
        self._balance()

    def unblock(self) -> None:
        self._blocked = False
        self._balance()

    def kill(self) -> None:
        """The destination is gone: nothing more can be delivered."""
        self._closed = True
        for _, stage in self._stages:
            stage.kill()

    # the chain

    def add(self, toxic: ArmedToxic) -> None:
        if self._stages:
            self._stages[-1][1].interrupt()  # its chunk in hand goes past the new stage
        stage = toxic.stage(toxic.attributes, self, self)
        if self._stages:
            previous = self._stages[-1][1]
            previous.output = stage
            if previous.closed or self._closed:
                stage.kill()
        self._stages.append((toxic, stage))
        if self._ended and len(self._stages) == 1:
            stage.kill()
        for _, running in self._stages[-2:]:
            running.start()

    def update(self, toxic: ArmedToxic) -> None:
        for other, stage in self._stages:
            if other is toxic and not stage.closed:
                stage.interrupt()
                stage.start()

    def remove(self, toxic: ArmedToxic) -> None:
        index = next((i for i, (other, _) in enumerate(self._stages) if other is toxic), None)
        if index is None:
            return
        stage = self._stages[index][1]
        if stage.closed or not stage.remove():
            return
        del self._stages[index]
        if index:
            previous = self._stages[index - 1][1]
            previous.output = stage.output
            previous.interrupt()
            previous.start()

    # what the stages may use

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return ExactTimer(self._loop, when, callback)

    def hold(self, chunk: Chunk) -> None:
        self._held_bytes += len(chunk.data)
        self._held_chunks += 1
        self._balance()

    def release(self, chunk: Chunk) -> None:
        self._held_bytes -= len(chunk.data)
        self._held_chunks -= 1
        self._balance()

    def _balance(self) -> None:
        """Pauses the source while too much waits, and lets it go on again."""
        full = self._blocked or self._held_bytes > MAX_BYTES or self._held_chunks > MAX_CHUNKS
        if full and not self._paused and not self._ended:
            self._paused = True
            self._source.pause_reading()
        elif self._paused and not full:
            self._paused = False
            if not self._ended:
                self._source.resume_reading()
