"""One direction of one connection: straight through, or a chain of stages from source to destination."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import random

from windtunnel.toxiproxy.embedded.channel import Channel, Output, nobody
from windtunnel.toxiproxy.embedded.collection import ArmedToxic
from windtunnel.toxiproxy.embedded.place import Place
from windtunnel.toxiproxy.embedded.stages.base import Chunk

# Chunks as the real server reads them. Before its first toxic it has two in hand: one in its reader, one
# in a hidden stage without effect; a channel counts the one in its sender's hand itself.
CHUNK_BYTES = 32 * 1024
READ_AHEAD = 1

# told what was "received" and "sent" (bytes), once each direction is at its end
Count = Callable[[str, int], None]


class Destination:
    """The end of the chain. Its closing ends the other direction's source, so that this closes in its turn,
    as in the real server (which has no half-closed connections: a client that shuts down its sending side
    loses the reply)."""

    def __init__(self, transport: Transport, count: Count) -> None:
        self._transport = transport
        self._count = count
        self.on_room: Callable[[], None] = nobody
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


class Link:
    """Carries data from ``source`` to ``destination``.

    Stages run one after the other, never inside each other: what wakes one puts it into a queue.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        source: Transport,
        destination: Transport,
        toxics: Iterable[ArmedToxic],
        count: Count,
    ) -> None:
        self._loop = loop
        self._source = source
        self._count = count
        self._destination = Destination(destination, count)
        self._chain: list[tuple[ArmedToxic, Place]] = []
        self._unread = b""  # read by the transport, not yet by the chain: as if it had not come in
        self._paused = False
        self._ended = False  # the source has ended
        self._steps: deque[Callable[[], None]] = deque()
        self._stepping = False
        self._received = 0  # bytes
        with self._changing():
            self._lead_into(self._destination)
            for toxic in toxics:
                self._append(toxic)
            for entry in self._chain:
                self._start(entry)

    # the source's side

    def receive(self, data: bytes) -> None:
        self._received += len(data)
        if not self._chain:
            self._destination.write(data)
        else:
            self._unread += data
            self._wake(self._fill)

    def end(self) -> None:
        """The source sent its end, or is gone."""
        if not self._ended:
            self._ended = True
            self._count("received", self._received)
            self._wake(self._fill)

    def _fill(self) -> None:
        """Reads for the chain, as far as it has room; then the source is paused."""
        if self._chain:
            first = self._chain[0][1].input
            while self._unread and not first.full:
                chunk = Chunk(self._unread[:CHUNK_BYTES], time.monotonic())
                self._unread = self._unread[CHUNK_BYTES:]
                first.put(chunk)
            if self._ended and not self._unread and not first.ended:
                first.end()
            self._pause(first.full)
        else:
            self._destination.write(self._unread)
            self._unread = b""
            if self._ended:
                self._destination.end()
            self._pause(self._destination.full)

    def _pause(self, full: bool) -> None:
        if full and not self._paused and not self._ended:
            self._paused = True
            self._source.pause_reading()
        elif self._paused and not full:
            self._paused = False
            if not self._ended:
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
        for _, place in self._chain:
            place.kill()

    # the chain

    def add(self, toxic: ArmedToxic) -> None:
        """Puts it last, unless the chain has closed. What the stage before has in hand goes past it."""
        last = self._chain[-1] if self._chain else None
        with self._changing():
            if not (last[1].interrupt() if last else not self._destination.closed):
                return
            self._start((toxic, self._append(toxic)))
            if last:
                self._start(last)

    def update(self, toxic: ArmedToxic) -> None:
        with self._changing():
            for other, place in self._chain:
                if other is toxic and place.interrupt():
                    self._start((toxic, place))

    def remove(self, toxic: ArmedToxic) -> None:
        """Passes on all that waits before it, in order. What has closed, or will, stays in its place."""
        with self._changing():
            index = next((i for i, (other, _) in enumerate(self._chain) if other is toxic), None)
            if index is None or not self._chain[index][1].interrupt():
                return
            place = self._chain[index][1]
            if place.stage.closes_when_removed:
                place.close()
                return
            place.input.pour(place.output)
            before = self._chain[index - 1] if index else None
            stopped = before is not None and before[1].interrupt()
            place.input.pour(place.output)
            if place.input.ended:
                place.close()
                return
            del self._chain[index]
            if before is None:
                self._lead_into(place.output)
                return
            before[1].output = place.output
            if stopped:
                self._start(before)

    def _append(self, toxic: ArmedToxic) -> Place:
        stage = toxic.stage(toxic.attributes)
        channel = Channel(stage.buffer)
        if self._chain:
            self._chain[-1][1].output = channel
        else:
            self._lead_into(channel)
        place = Place(stage, channel, self._destination, self._loop, self._wake)
        self._chain.append((toxic, place))
        return place

    def _start(self, entry: tuple[ArmedToxic, Place]) -> None:
        """Toxicity is drawn here: for a connection, and again at each change that concerns this place."""
        toxic, place = entry
        place.start(harmful=random() < toxic.toxicity)

    def _lead_into(self, output: Output) -> None:
        """The source now feeds this."""
        output.on_room = lambda: self._wake(self._fill)
        if isinstance(output, Channel):
            output.capacity += READ_AHEAD
        self._wake(self._fill)

    # steps

    def _wake(self, step: Callable[[], None]) -> None:
        self._steps.append(step)
        if not self._stepping:
            with self._changing():
                pass

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Stages that are woken meanwhile go on afterwards."""
        self._stepping = True
        try:
            yield
            while self._steps:
                self._steps.popleft()()
        finally:
            self._stepping = False
