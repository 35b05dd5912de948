"""One direction of one connection: straight through, or a chain of toxics from source to destination."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import random

from wirefault.toxiproxy.embedded.channel import Channel, Output, wake_nobody
from wirefault.toxiproxy.embedded.pipe_runner import PipeRunner
from wirefault.toxiproxy.embedded.toxic_collection import ProxyToxic
from wirefault.toxiproxy.toxics.pipe import Chunk

# The real server reads chunks of this size. Before its first toxic it holds two: one in its reader, one in
# a hidden toxic without effect. A channel counts the chunk that its sender holds itself.
CHUNK_BYTES = 32 * 1024
READ_AHEAD = 1

# Called with "received" or "sent" and a number of bytes, once each direction is at its end.
CountBytes = Callable[[str, int], None]


class Destination:
    """The end of the chain.

    Closing it ends the other direction's source too, so that this direction closes in its turn. The real
    server does the same: it has no half-closed connections, and a client that shuts down its sending side
    loses the reply.
    """

    def __init__(self, transport: Transport, count: CountBytes) -> None:
        self._transport = transport
        self._count = count
        self.on_room: Callable[[], None] = wake_nobody
        self.full = False
        self.closed = False
        self._written = 0  # bytes

    def put(self, chunk: Chunk) -> None:
        self.write(chunk.data)

    def write(self, data: bytes) -> None:
        if not self.closed and data:
            self._transport.write(data)
            self._written += len(data)

    def end(self) -> None:
        """Closes the connection, once all is written."""
        if not self.closed:
            self.close()
            self._transport.close()

    def close(self) -> None:
        """From here on nothing is written."""
        if not self.closed:
            self.closed = True
            self._count("sent", self._written)


class ToxicLink:
    """Carries data from ``source`` to ``destination``.

    Pipes run one after the other, never inside each other: whatever wakes a pipe queues its step.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        source: Transport,
        destination: Transport,
        toxics: Iterable[ProxyToxic],
        count: CountBytes,
    ) -> None:
        self._loop = loop
        self._source = source
        self._count = count
        self._destination = Destination(destination, count)
        self._chain: list[tuple[ProxyToxic, PipeRunner]] = []
        self._unread = b""  # read by the transport, not yet by the chain: as if it had not come in
        self._paused = False
        self._source_ended = False
        self._steps: deque[Callable[[], None]] = deque()
        self._stepping = False
        self._received = 0  # bytes
        with self._running_steps():
            self._feed(self._destination)
            for toxic in toxics:
                self._append(toxic)
            for toxic, runner in self._chain:
                _start(toxic, runner)

    # the source's side

    def receive(self, data: bytes) -> None:
        self._received += len(data)
        if not self._chain:
            self._destination.write(data)
        else:
            self._unread += data
            self._schedule(self._read_for_chain)

    def end(self) -> None:
        """The source sent its end, or is gone."""
        if not self._source_ended:
            self._source_ended = True
            self._count("received", self._received)
            self._schedule(self._read_for_chain)

    def _read_for_chain(self) -> None:
        """Gives the chain as much as it has room for, then pauses the source."""
        if self._chain:
            first_input = self._chain[0][1].input
            while self._unread and not first_input.full:
                chunk = Chunk(self._unread[:CHUNK_BYTES], time.monotonic())
                self._unread = self._unread[CHUNK_BYTES:]
                first_input.put(chunk)
            if self._source_ended and not self._unread and not first_input.ended:
                first_input.end()
            self._pause(first_input.full)
        else:
            self._destination.write(self._unread)
            self._unread = b""
            if self._source_ended:
                self._destination.end()
            self._pause(self._destination.full)

    def _pause(self, full: bool) -> None:
        if full and not self._paused and not self._source_ended:
            self._paused = True
            self._source.pause_reading()
        elif self._paused and not full:
            self._paused = False
            if not self._source_ended:
                self._source.resume_reading()

    # the destination's side

    def block(self) -> None:
        """The destination takes no more for now."""
        self._destination.full = True
        if not self._chain:
            self._pause(True)

    def unblock(self) -> None:
        self._destination.full = False
        self._destination.on_room()

    def kill(self) -> None:
        """The destination is gone: nothing more can be delivered."""
        self._destination.close()
        for _, runner in self._chain:
            runner.kill()

    # the chain

    def add(self, toxic: ProxyToxic) -> None:
        """Appends the toxic, unless the chain has closed. The data that the one before holds passes it by."""
        last = self._chain[-1] if self._chain else None
        with self._running_steps():
            if not (last[1].interrupt() if last else not self._destination.closed):
                return
            _start(toxic, self._append(toxic))
            if last:
                _start(*last)

    def update(self, toxic: ProxyToxic) -> None:
        with self._running_steps():
            for other, runner in self._chain:
                if other is toxic and runner.interrupt():
                    _start(toxic, runner)

    def remove(self, toxic: ProxyToxic) -> None:
        """Passes on, in order, all data that waits before the toxic, and takes it out of the chain.

        It stays where its output has closed, or will close whatever is done now.
        """
        with self._running_steps():
            index = next((i for i, (other, _) in enumerate(self._chain) if other is toxic), None)
            if index is None or not self._chain[index][1].interrupt():
                return
            runner = self._chain[index][1]
            if toxic.definition.closes_when_removed:
                runner.close()
                return
            runner.input.pour(runner.output)
            before = self._chain[index - 1] if index else None
            stopped = before is not None and before[1].interrupt()
            runner.input.pour(runner.output)
            if runner.input.ended:
                runner.close()
                return
            del self._chain[index]
            if before is None:
                self._feed(runner.output)
                return
            before[1].output = runner.output
            if stopped:
                _start(*before)

    def _append(self, toxic: ProxyToxic) -> PipeRunner:
        runner = PipeRunner(toxic.definition, toxic.attributes, self._destination, self._loop, self._schedule)
        if self._chain:
            self._chain[-1][1].output = runner.input
        else:
            self._feed(runner.input)
        self._chain.append((toxic, runner))
        return runner

    def _feed(self, output: Output) -> None:
        """From here on the source's data goes to that output."""
        output.on_room = lambda: self._schedule(self._read_for_chain)
        if isinstance(output, Channel):
            output.capacity += READ_AHEAD
        self._schedule(self._read_for_chain)

    # steps

    def _schedule(self, step: Callable[[], None]) -> None:
        self._steps.append(step)
        if not self._stepping:
            with self._running_steps():
                pass

    @contextmanager
    def _running_steps(self) -> Iterator[None]:
        """Runs the steps that are queued within the block once the block is done."""
        self._stepping = True
        try:
            yield
            while self._steps:
                self._steps.popleft()()
        finally:
            self._stepping = False


def _start(toxic: ProxyToxic, runner: PipeRunner) -> None:
    """Draws whether the toxicity affects this connection: anew at each change that concerns the toxic."""
    runner.start(affected=random() < toxic.toxicity)
