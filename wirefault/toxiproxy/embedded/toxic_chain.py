"""The toxics of one proxy, and the chain of them that carries one direction of one connection."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import random
from typing import Any

from wirefault.toxiproxy.embedded.go_json import (
    ApiError,
    FieldReader,
    first_value,
    read_fields,
    read_float32,
    read_int64,
    read_object,
    read_string,
)
from wirefault.toxiproxy.embedded.pipe_runner import Channel, Output, PipeRunner, no_waiter
from wirefault.toxiproxy.toxics import SERVER_TOXICS
from wirefault.toxiproxy.toxics.base import STREAMS, Chunk, Toxic

_FIELDS: dict[str, FieldReader] = {
    "name": read_string,
    "type": read_string,
    "stream": read_string,
    "toxicity": read_float32,
    "attributes": read_object,
}


@dataclass(eq=False)
class ProxyToxic:
    """A toxic set on a proxy. Its pipes share ``attributes``, so that an update reaches them."""

    name: str
    definition: Toxic
    stream: str  # in the letter case of the request
    toxicity: float
    attributes: dict[str, int]
    shared: dict[str, float] = field(default_factory=dict)

    @property
    def direction(self) -> str:
        return self.stream.lower()

    def json(self) -> dict[str, Any]:
        return {
            "attributes": dict(self.attributes),
            "name": self.name,
            "type": self.definition.kind,
            "stream": self.stream,
            "toxicity": self.toxicity,
        }


class ToxicCollection:
    """The toxics of one proxy and the open links that they act on. Methods raise ``ApiError``."""

    def __init__(self) -> None:
        self._chains: dict[str, list[ProxyToxic]] = {stream: [] for stream in STREAMS}
        self._links: dict[str, set[ToxicLink]] = {stream: set() for stream in STREAMS}

    def __iter__(self) -> Iterator[ProxyToxic]:
        """All toxics, upstream first, in the order of their chains."""
        for stream in STREAMS:
            yield from self._chains[stream]

    def chain(self, direction: str) -> tuple[ProxyToxic, ...]:
        return tuple(self._chains[direction])

    def open(self, direction: str, link: ToxicLink) -> None:
        self._links[direction].add(link)

    def close(self, direction: str, link: ToxicLink) -> None:
        self._links[direction].discard(link)

    def get(self, name: str) -> ProxyToxic:
        for toxic in self:
            if toxic.name == name:
                return toxic
        raise ApiError("toxic not found", 404)

    def create(self, body: bytes) -> ProxyToxic:
        """Add the toxic that a request body describes, to open connections too."""
        toxic = self._toxic_of(first_value(body))
        self._chains[toxic.direction].append(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.add(toxic)
        return toxic

    def update(self, name: str, body: bytes) -> ProxyToxic:
        """Change attributes and toxicity; name, type and stream stay."""
        toxic = self.get(name)
        readers = {"attributes": _attributes_reader(toxic.attributes), "toxicity": read_float32}
        changed = read_fields(first_value(body), readers)
        toxic.toxicity = changed.get("toxicity", toxic.toxicity)
        for link in tuple(self._links[toxic.direction]):
            link.update(toxic)
        return toxic

    def remove(self, name: str) -> None:
        toxic = self.get(name)
        self._chains[toxic.direction].remove(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.remove(toxic)

    def reset(self) -> None:
        for toxic in tuple(self):
            self.remove(toxic.name)

    def _toxic_of(self, value: Any) -> ProxyToxic:
        """Read a toxic; checks in the real server's order, so that the first error is the same."""
        fields = read_fields(value, _FIELDS)
        stream = fields.get("stream", "downstream")
        if stream.lower() not in STREAMS:
            raise ApiError("stream was invalid, can be either upstream or downstream", 400)
        kind = fields.get("type", "")
        if kind not in SERVER_TOXICS:
            raise ApiError("invalid toxic type", 400)
        name = fields.get("name") or f"{kind}_{stream}"
        if any(toxic.name == name for toxic in self):
            raise ApiError("toxic already exists", 409)
        definition = SERVER_TOXICS[kind]
        attributes = {attribute.name: 0 for attribute in definition.attributes}
        read_fields(value, {"attributes": _attributes_reader(attributes)})
        return ProxyToxic(name, definition, stream, fields.get("toxicity", 1.0), attributes)


def _attributes_reader(attributes: dict[str, int]) -> FieldReader:
    """Change the attributes in place; as in the real server, a bad one does not undo the others."""

    def read(value: Any) -> dict[str, int]:
        return read_fields(value, dict.fromkeys(attributes, read_int64), attributes)

    return read


# The real server reads chunks of this size and holds two before its first toxic: one in its reader, one in
# a hidden no-op toxic. A channel counts its sender's chunk itself.
CHUNK_BYTES = 32 * 1024
READ_AHEAD = 1

# Called with "received" or "sent" and a number of bytes, once each direction is at its end.
CountBytes = Callable[[str, int], None]


class Destination:
    """The end of the chain.

    Closing it ends the other direction's source too, which closes that direction. Like the real server, this
    one has no half-closed connections: a client that shuts down its sending side loses the reply.
    """

    def __init__(self, transport: Transport, count: CountBytes) -> None:
        self._transport = transport
        self._count = count
        self.on_room: Callable[[], None] = no_waiter
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
        """Close the connection once everything is written."""
        if not self.closed:
            self.close()
            self._transport.close()

    def close(self) -> None:
        """Discard everything from now on."""
        if not self.closed:
            self.closed = True
            self._count("sent", self._written)


class ToxicLink:
    """Carries data from ``source`` to ``destination``, straight or through a chain of toxics.

    Pipes run one after another, never nested: events that wake a pipe queue its step.
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
        self._unread = b""  # read by the transport, not yet by the chain
        self._paused = False
        self._source_ended = False
        self._steps: deque[Callable[[], None]] = deque()
        self._stepping = False
        self._received = 0  # bytes
        self._opened = time.monotonic()
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
        """The source sent EOF or is lost."""
        if not self._source_ended:
            self._source_ended = True
            self._count("received", self._received)
            self._schedule(self._read_for_chain)

    def _read_for_chain(self) -> None:
        """Feed the chain while it has room, then pause the source."""
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
        """The destination accepts no more for now."""
        self._destination.full = True
        if not self._chain:
            self._pause(True)

    def unblock(self) -> None:
        self._destination.full = False
        self._destination.on_room()

    def kill(self) -> None:
        """The destination is lost: nothing more can be delivered."""
        self._destination.close()
        for _, runner in self._chain:
            runner.kill()

    # the chain

    def add(self, toxic: ProxyToxic) -> None:
        """Append the toxic, unless the chain has closed. Data held by the toxic before it bypasses it."""
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
        """Pass on, in order, all data queued before the toxic, and take it out of the chain.

        It stays if its output has closed or is bound to close.
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
        runner = PipeRunner(
            toxic.definition,
            toxic.attributes,
            self._destination,
            self._loop,
            self._schedule,
            opened=self._opened,
            shared=toxic.shared,
        )
        if self._chain:
            self._chain[-1][1].output = runner.input
        else:
            self._feed(runner.input)
        self._chain.append((toxic, runner))
        return runner

    def _feed(self, output: Output) -> None:
        """Send the source's data to that output from now on."""
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
        """Run the steps queued within the block when it ends."""
        self._stepping = True
        try:
            yield
            while self._steps:
                self._steps.popleft()()
        finally:
            self._stepping = False


def _start(toxic: ProxyToxic, runner: PipeRunner) -> None:
    """Start the pipe; each start draws anew whether the toxicity affects this connection."""
    runner.start(affected=random() < toxic.toxicity)
