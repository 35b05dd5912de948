"""A reply that is kept until it is whole, so that a fault can change it as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.dialects.http import Ending, RawReply, Reply, Step
from windtunnel.faults.base import Changed, Miss
from windtunnel.faults.plan import MetFault
from windtunnel.gateway.connection.event_stream_edit import EventStreamEdit
from windtunnel.gateway.connection.upstream_reply import MAX_BUFFERED_REPLY, UpstreamReply
from windtunnel.gateway.http1.messages import Unreadable, decoded


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
