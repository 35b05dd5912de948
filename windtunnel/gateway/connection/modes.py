"""How a reply gets past faults that may change it: as it is, once it is whole, or event by event. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from windtunnel.core.digest import body_hash
from windtunnel.dialects.http import Ending, RawReply, Reply, Step, chunk
from windtunnel.faults.base import Changed, EventEditor, Miss, WhyNot
from windtunnel.faults.plan import MetFault
from windtunnel.gateway.http1.messages import Decoder, Unreadable, decoded
from windtunnel.gateway.http1.rendering import header_block, render

MAX_KEPT = 16 << 20
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


@dataclass(eq=False)
class UpstreamReply:
    """What is known of the upstream's reply, and who stands in ``line`` to change it.

    ``shown``: as faults see it, its body left out. ``streams``: it is an event stream, and the client can
    take one that is made as it goes. ``digest`` hashes what its body carries. ``changed_by``: who did.
    """

    line: list[MetFault]
    keep_alive: bool
    head_only: bool
    shown: Reply = field(default_factory=Reply)
    encoding: str = ""
    streams: bool = False
    digest: blake2b = field(default_factory=body_hash)
    changed_by: MetFault | None = None

    def miss(self, why: WhyNot) -> None:
        """Whoever in the line has not acted will not."""
        for met in self.line:
            met.miss(why)

    def render(self, reply: Reply) -> bytes:
        return render(reply, keep_alive=self.keep_alive, head_only=self.head_only)


class Mode(Protocol):
    """``raw`` bytes as they came, and what the body ``carried`` with them. ``ending``: the client's."""

    ending: Ending

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]: ...

    def end(self) -> Sequence[Step]: ...

    def fail(self) -> Sequence[Step]:
        """The upstream's reply has broken off."""


class Passing:
    """The reply goes on as it is."""

    ending: Ending = "keep"

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        return (raw,)

    def end(self) -> Sequence[Step]:
        return ()

    fail = end


class Whole:
    """The reply is kept until it is whole; then the first in line that can change it does."""

    def __init__(self, natural: UpstreamReply) -> None:
        self.ending: Ending = "keep"
        self._natural = natural
        self._raw = bytearray()
        self._carried = bytearray()
        self._too_large = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        if self._too_large:
            return (raw,)
        self._raw += raw
        self._carried += carried
        if len(self._raw) <= MAX_KEPT:
            return ()
        self._too_large = True
        self._natural.miss("too_large")
        return self.fail()

    def fail(self) -> Sequence[Step]:
        raw = bytes(self._raw)
        self._raw.clear()
        return (raw,)

    def end(self) -> Sequence[Step]:
        if self._too_large:
            return ()
        natural = self._natural
        try:
            body = decoded(bytes(self._carried), natural.encoding, MAX_KEPT)
        except Unreadable:
            natural.miss("unreadable")
            return self.fail()
        natural.digest.update(body)
        for met in natural.line:
            steps = self._changed(met, natural.shown.with_body(body))
            if steps is not None:
                natural.changed_by = met
                natural.miss("already_faulted")
                return steps
        return self.fail()

    def _changed(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """What the client gets from that fault; None if it changes nothing."""
        if self._natural.streams and met.act.events is not None:
            return self._edited(met, reply)
        changed = met.guarded(met.act.reply, reply) if met.act.reply else Miss("not_a_stream")
        if isinstance(changed, Miss):
            met.miss(changed.why)
        if not isinstance(changed, Changed):
            return None
        steps = self._steps(met, changed.reply)
        if steps is not None:
            met.changed(changed.evidence)
        return steps

    def _steps(self, met: MetFault, reply: Reply | RawReply) -> Sequence[Step] | None:
        if isinstance(reply, RawReply):
            self.ending = reply.ending
            return reply.steps
        data = met.guarded(self._natural.render, reply)
        return None if data is None else (data,)

    def _edited(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """An editor's work on a stream that was kept, for several stand in line."""
        editor = met.guarded(met.act.events) if met.act.events else None
        if editor is None:
            return None
        stream = Stream(self._natural, met, editor)
        steps = [*stream.feed(b"", reply.body), *stream.end()]
        if not met.injected:
            return None
        self.ending = stream.ending
        return steps


class Stream:
    """An event stream goes on event by event, through a fault's editor; chunked, whatever it was.

    Without a ``decoder`` what it carries has been decoded and hashed before.
    """

    def __init__(
        self, natural: UpstreamReply, met: MetFault, editor: EventEditor, decoder: Decoder | None = None
    ) -> None:
        self.ending: Ending = "keep"
        self._natural, self._met, self._editor = natural, met, editor
        self._decoder = decoder
        self._splitter = EventSplitter()
        self._begun = self._failed = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        steps: list[Step] = []
        if not self._begun:
            self._begun = True
            steps.append(header_block(self._natural.shown, None, keep_alive=self._natural.keep_alive))
        for event in self._events(carried):
            if self.ending == "keep":
                steps += _chunked(self._by_editor(event))
        return steps

    def _events(self, carried: bytes) -> Sequence[bytes]:
        try:
            if self._decoder is not None:
                carried = self._decoder.feed(carried)
                self._natural.digest.update(carried)
            return self._splitter.feed(carried)
        except (Unreadable, TooLarge) as error:  # what has gone out already cannot be taken back
            self._met.miss("too_large" if isinstance(error, TooLarge) else "unreadable")
            self.ending = "close"
            return ()

    def _by_editor(self, event: bytes | None) -> Sequence[Step]:
        """What the editor makes of an event, or of the end (None); as it is, once the editor has failed."""
        steps = None
        if not self._failed:
            function = self._editor.end if event is None else lambda: self._editor.event(event)
            steps = self._met.guarded(function)
            self._failed = steps is None
        if steps is None:
            return () if event is None else (event,)
        if self._editor.why_not is None:
            self._met.changed(self._editor.evidence)
            self._natural.changed_by = self._met
        self.ending = self._editor.ending
        return steps

    def end(self) -> Sequence[Step]:
        steps: list[Step] = []
        if self.ending == "keep":
            steps += _chunked([self._splitter.rest, *self._by_editor(None)])
            self._met.miss(self._editor.why_not or "nothing_to_change")
        return [*steps, chunk(b"")] if self.ending == "keep" else steps

    def fail(self) -> Sequence[Step]:
        return _chunked([self._splitter.rest])


def _chunked(steps: Sequence[Step]) -> list[Step]:
    return [chunk(step) if isinstance(step, bytes) else step for step in steps if step]


class TooLarge(Exception):
    """More than the gateway keeps."""


class EventSplitter:
    """Splits an event stream into whole events, blank line included. Raises ``TooLarge``."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        seen = max(len(self.rest) - 3, 0)  # no blank line begins before that
        self.rest += data
        events, start = [], 0
        for found in _BLANK_LINE.finditer(self.rest, seen):
            events.append(self.rest[start : found.end()])
            start = found.end()
        self.rest = self.rest[start:]
        if len(self.rest) > MAX_KEPT:
            raise TooLarge
        return events
