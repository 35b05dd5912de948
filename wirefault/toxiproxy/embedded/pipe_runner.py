"""One toxic in one direction of one connection: runs its ``pipe`` coroutine, with the queue before it."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Handle
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Literal, Protocol

from wirefault.toxiproxy.toxics.base import Chunk, Interrupted, Toxic, pass_all


def no_waiter() -> None:
    """The callback of a queue without a waiter."""


class Output(Protocol):
    """A sink for chunks: a channel, or the connection's other end."""

    on_room: Callable[[], None]

    @property
    def full(self) -> bool:
        """Whether the sender must wait until ``on_room`` is called."""

    def put(self, chunk: Chunk) -> None:
        """Accept the chunk even when full: an interrupted sender must not wait."""

    def end(self) -> None: ...


class Channel:
    """A queue between two toxics: ``capacity`` chunks, plus the one of a sender that waits for room."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ended = False
        self.on_data: Callable[[], None] = no_waiter
        self.on_room: Callable[[], None] = no_waiter
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
        """Pass on all queued chunks at once."""
        while self:
            output.put(self.take())


WaitingFor = Literal["data", "room", "time", "time_uninterrupted"]


class _Wait:
    """Awaited by the stub's methods; ends when the runner resumes the pipe."""

    def __init__(self, waiting_for: WaitingFor) -> None:
        self._waiting_for = waiting_for

    def __await__(self) -> Generator[WaitingFor, None, None]:
        yield self._waiting_for


class ExactTimer:
    """A timer that never fires early: the event loop's clock is cached and counts whole milliseconds."""

    MAX_S = 86_400.0

    def __init__(self, loop: AbstractEventLoop, when: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._handle = self._schedule()

    def cancel(self) -> None:
        self._handle.cancel()

    def _schedule(self) -> Handle:
        left = self._when - time.monotonic()
        if left <= 0:
            return self._loop.call_soon(self._fire)
        return self._loop.call_later(min(max(left, 0.001), self.MAX_S), self._fire)

    def _fire(self) -> None:
        if time.monotonic() < self._when:
            self._handle = self._schedule()
        else:
            self._callback()


class PipeRunner:
    """Runs one pipe: implements ``ToxicStub`` for it, and start, interrupt and kill for its link.

    ``schedule`` queues a step of this runner, so that no pipe runs inside another's.
    """

    def __init__(
        self,
        toxic: Toxic,
        attributes: Mapping[str, int],
        output: Output,
        loop: AbstractEventLoop,
        schedule: Callable[[Callable[[], None]], None],
        opened: float,
        shared: dict[str, float],
    ) -> None:
        self.opened = opened
        self.shared = shared
        self.attributes = attributes
        self.bytes_passed = 0
        self.input = Channel(toxic.buffer_chunks)
        self.output = output
        self.closed = False
        self._toxic = toxic
        self._loop = loop
        self._schedule = schedule
        self._pipe: Coroutine[WaitingFor, None, None] | None = None
        self._waiting_for: WaitingFor | None = None
        self._interrupted = False
        self._timer: ExactTimer | None = None
        self.input.on_data = lambda: schedule(self._data_came)

    # called by the link

    def start(self, affected: bool) -> None:
        """Run the toxic's pipe, or pass data unchanged if the connection is not ``affected``."""
        self.output.on_room = lambda: self._schedule(self._room_came)
        self._pipe = self._toxic.pipe(self) if affected else pass_all(self)
        self._resume()

    def interrupt(self) -> bool:
        """Stop the pipe after it has passed on the data that it holds.

        Returns False if the output has closed or is bound to close.
        """
        if self.closed or self._pipe is None or self._waiting_for == "time_uninterrupted":
            return False
        self._interrupted = True
        self._resume(None if self._waiting_for == "room" else Interrupted())
        self._interrupted = False
        return not self.closed

    def kill(self) -> None:
        """Drop the pipe and its data: the connection is lost."""
        self.closed = True
        self._cancel_timer()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    # the stub, called by the pipe

    def now(self) -> float:
        return time.monotonic()

    async def receive(self, within: float | None = None) -> Chunk | None:
        self._raise_if_interrupted()
        if not self.input and not self.input.ended:
            if within is not None:
                self._set_timer(within)
            await _Wait("data")
            self._cancel_timer()
        return self.input.take() if self.input else None

    async def send(self, chunk: Chunk) -> None:
        self.output.put(chunk)
        if self.output.full and not self._interrupted:
            await _Wait("room")

    async def sleep(self, seconds: float) -> None:
        self._raise_if_interrupted()
        self._set_timer(seconds)
        await _Wait("time")

    async def sleep_uninterrupted(self, seconds: float) -> None:
        self._raise_if_interrupted()
        self._set_timer(seconds)
        await _Wait("time_uninterrupted")

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.output.end()

    # steps

    def _raise_if_interrupted(self) -> None:
        if self._interrupted:
            raise Interrupted

    def _resume(self, error: Exception | None = None) -> None:
        """Run the pipe until it waits again or ends."""
        if self._pipe is None:
            return
        self._waiting_for = None
        try:
            self._waiting_for = self._pipe.throw(error) if error else self._pipe.send(None)
        except (StopIteration, Interrupted):
            self._pipe = None
            self._cancel_timer()

    def _data_came(self) -> None:
        if self._waiting_for == "data" and (self.input or self.input.ended):
            self._resume()

    def _room_came(self) -> None:
        if self._waiting_for == "room" and not self.output.full:
            self._resume()

    def _time_came(self) -> None:
        self._timer = None
        if self._waiting_for in ("time", "time_uninterrupted", "data"):
            self._resume()

    def _set_timer(self, seconds: float) -> None:
        when = time.monotonic() + seconds
        self._timer = ExactTimer(self._loop, when, lambda: self._schedule(self._time_came))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
