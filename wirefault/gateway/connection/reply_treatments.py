"""How a reply that faults may change is treated: as an event stream as it goes by, or kept whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wirefault.dialects.http import Ending, RawReply, Reply, Step, chunk
from wirefault.faults.base import Changed, EventEditor, Miss
from wirefault.faults.plan import MetFault
from wirefault.gateway.connection.upstream_reply import MAX_BUFFERED_REPLY, UpstreamReply
from wirefault.gateway.http1.messages import Decoder, Unreadable, decoded
from wirefault.gateway.http1.rendering import header_block

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventTooLarge(Exception):
    """One event is larger than what the gateway buffers of a reply."""


class EventSplitter:
    """Splits an event stream into whole events, blank line included. ``rest``: the event under way."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that these bytes complete. Raises ``EventTooLarge``."""
        searched = max(len(self.rest) - 3, 0)  # no blank line begins before that
        self.rest += data
        events, start = [], 0
        for blank_line in _BLANK_LINE.finditer(self.rest, searched):
            events.append(self.rest[start : blank_line.end()])
            start = blank_line.end()
        self.rest = self.rest[start:]
        if len(self.rest) > MAX_BUFFERED_REPLY:
            raise EventTooLarge
        return events


class EventStreamEdit:
    """Passes an event stream through a fault's editor. The client gets it chunked, however it came.

    ``decoder`` takes its Content-Encoding off; without one, the stream was decoded and hashed before.
    """

    def __init__(
        self, reply: UpstreamReply, met: MetFault, editor: EventEditor, decoder: Decoder | None = None
    ) -> None:
        self.ending: Ending = "keep"
        self._reply, self._met, self._editor = reply, met, editor
        self._decoder = decoder
        self._splitter = EventSplitter()
        self._begun = self._editor_failed = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        steps: list[Step] = []
        if not self._begun:
            self._begun = True
            steps.append(header_block(self._reply.shown, None, keep_alive=self._reply.keep_alive))
        for event in self._split(carried):
            if self.ending == "keep":
                steps += _chunked(self._edited(event))
        return steps

    def _split(self, carried: bytes) -> Sequence[bytes]:
        try:
            if self._decoder is not None:
                carried = self._decoder.feed(carried)
                self._reply.digest.update(carried)
            return self._splitter.feed(carried)
        except (Unreadable, EventTooLarge) as error:  # what has gone out already cannot be taken back
            self._met.mark_not_injected("too_large" if isinstance(error, EventTooLarge) else "unreadable")
            self.ending = "close"
            return ()

    def _edited(self, event: bytes | None) -> Sequence[Step]:
        """What the editor makes of an event, or of the end (None). Once it has failed, nothing is changed."""
        steps = None
        if not self._editor_failed:
            function = self._editor.end if event is None else lambda: self._editor.event(event)
            steps = self._met.guarded(function)
            self._editor_failed = steps is None
        if steps is None:
            return () if event is None else (event,)
        if self._editor.why_not is None:
            self._met.mark_injected(self._editor.evidence)
            self._reply.changed_by = self._met
        self.ending = self._editor.ending
        return steps

    def end(self) -> Sequence[Step]:
        steps: list[Step] = []
        if self.ending == "keep":
            steps += _chunked([self._splitter.rest, *self._edited(None)])
            self._met.mark_not_injected(self._editor.why_not or "nothing_to_change")
        return [*steps, chunk(b"")] if self.ending == "keep" else steps

    def fail(self) -> Sequence[Step]:
        return _chunked([self._splitter.rest])


def _chunked(steps: Sequence[Step]) -> list[Step]:
    return [chunk(step) if isinstance(step, bytes) else step for step in steps if step]


class BufferedReply:
    """The first candidate that can change the whole reply does; else the client gets it as it came."""

    def __init__(self, reply: UpstreamReply) -> None:
        self.ending: Ending = "keep"
        self._reply = reply
        self._raw = bytearray()
        self._carried = bytearray()
        self._too_large = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        if self._too_large:
            return (raw,)
        self._raw += raw
        self._carried += carried
        if len(self._raw) <= MAX_BUFFERED_REPLY:
            return ()
        self._too_large = True
        self._reply.mark_not_injected("too_large")
        return self.fail()

    def fail(self) -> Sequence[Step]:
        raw = bytes(self._raw)
        self._raw.clear()
        return (raw,)

    def end(self) -> Sequence[Step]:
        if self._too_large:
            return ()
        reply = self._reply
        try:
            body = decoded(bytes(self._carried), reply.encoding, MAX_BUFFERED_REPLY)
        except Unreadable:
            reply.mark_not_injected("unreadable")
            return self.fail()
        reply.digest.update(body)
        for met in reply.candidates:
            steps = self._changed_by(met, reply.shown.with_body(body))
            if steps is not None:
                reply.changed_by = met
                reply.mark_not_injected("already_faulted")
                return steps
        return self.fail()

    def _changed_by(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """What the client gets from that fault; None if it changes nothing."""
        if self._reply.streams and met.act.events is not None:
            return self._edited_by(met, reply)
        changed = met.guarded(met.act.reply, reply) if met.act.reply else Miss("not_a_stream")
        if isinstance(changed, Miss):
            met.mark_not_injected(changed.why)
        if not isinstance(changed, Changed):
            return None
        steps = self._steps(met, changed.reply)
        if steps is not None:
            met.mark_injected(changed.evidence)
        return steps

    def _steps(self, met: MetFault, reply: Reply | RawReply) -> Sequence[Step] | None:
        if isinstance(reply, RawReply):
            self.ending = reply.ending
            return reply.steps
        data = met.guarded(self._reply.render, reply)
        return None if data is None else (data,)

    def _edited_by(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """An editor's work on an event stream that was kept whole, since there are several candidates."""
        editor = met.guarded(met.act.events) if met.act.events else None
        if editor is None:
            return None
        edit = EventStreamEdit(self._reply, met, editor)
        steps = [*edit.feed(b"", reply.body), *edit.end()]
        if not met.injected:
            return None
        self.ending = edit.ending
        return steps
