"""Follows an upstream's reply for the faults that may change it, and for those that give it again later.

Pure: bytes in, steps out; the connection carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windtunnel.dialects.http import Ending, Reply, Step
from windtunnel.faults.plan import MetFault
from windtunnel.gateway.connection.modes import MAX_KEPT, Mode, Passing, Stream, UpstreamReply, Whole
from windtunnel.gateway.http1.heads import RequestHead
from windtunnel.gateway.http1.messages import Decoder, Unreadable, content_encoding, decoded, reply_of
from windtunnel.gateway.http1.reply_reader import ReplyReader

MAX_REMEMBERED = 256 * 1024


class ReplyEdit:
    """``natural`` is the reply and the faults in line for it; ``remember`` is given a copy of it.

    ``ending`` says how it ends for the client, ``done`` that nothing more of the upstream's is wanted.
    """

    def __init__(
        self,
        line: Sequence[MetFault],
        head: RequestHead,
        *,
        keep_alive: bool,
        swallow_continue: bool,
        remember: Callable[[Reply], None] | None = None,
    ) -> None:
        self.natural = UpstreamReply(list(line), keep_alive, head.method == "HEAD")
        self.reader = ReplyReader(head.method, head.upgrade, swallow_continue, self._carry)
        self._takes_chunks = head.lines[0].endswith(b"HTTP/1.1")
        self._remember = remember
        self._memory = bytearray()
        self._fresh = bytearray()
        self._mode: Mode | None = None

    @property
    def ending(self) -> Ending:
        return self._mode.ending if self._mode else "keep"

    @property
    def done(self) -> bool:
        return self.reader.done or self.ending != "keep"

    def feed(self, data: bytes) -> tuple[Sequence[Step], bytes]:
        """What the client gets now, and what came after the reply's end."""
        passed, surplus = self.reader.feed(data)
        interim, raw = passed[: self.reader.interim], passed[self.reader.interim :]
        if self._mode is None and self.reader.begun:
            self._mode = self._chosen()
        if self._mode is None:
            return (passed,), surplus
        carried = bytes(self._fresh)
        self._fresh.clear()
        return (interim, *self._mode.feed(raw, carried)), surplus

    def _carry(self, data: bytes) -> None:
        self._fresh += data
        if self._remember is not None:
            self._memory += data[: MAX_REMEMBERED + 1 - len(self._memory)]

    def end(self) -> Sequence[Step]:
        """The rest of what the client gets of a reply that has ended."""
        self._note_for_later()
        return self._mode.end() if self._mode else ()

    def fail(self) -> Sequence[Step]:
        """The rest of what the client gets of a reply that broke off."""
        self.natural.miss("upstream_failed")
        rest = self.reader.take_rest()
        return (*(self._mode.fail() if self._mode else ()), rest)

    def _chosen(self) -> Mode:
        """Once its header block is there: how it goes on."""
        natural, reader = self.natural, self.reader
        if reader.head is None or reader.tunnel:
            natural.miss("unreadable")
            return Passing()
        natural.keep_alive = natural.keep_alive and reader.keep_alive
        natural.shown, natural.encoding = reply_of(reader.block), content_encoding(reader.block)
        natural.streams = natural.shown.is_event_stream and self._takes_chunks and not natural.head_only
        for met in natural.line:
            if met.act.reply is None and not natural.streams:
                met.miss("not_a_stream")
        natural.line = [met for met in natural.line if not met.settled]
        return self._for_line(natural) if natural.line else Passing()

    @staticmethod
    def _for_line(natural: UpstreamReply) -> Mode:
        try:
            decoder = Decoder(natural.encoding, MAX_KEPT)
        except Unreadable:
            natural.miss("unreadable")
            return Passing()
        first = natural.line[0]
        if not natural.streams or len(natural.line) > 1 or first.act.events is None:
            return Whole(natural)
        editor = first.guarded(first.act.events)
        return Passing() if editor is None else Stream(natural, first, editor, decoder)

    def _note_for_later(self) -> None:
        whole = self.reader.head is not None and self.ending == "keep"
        if self._remember is None or not whole or len(self._memory) > MAX_REMEMBERED:
            return
        try:
            body = decoded(bytes(self._memory), content_encoding(self.reader.block), MAX_KEPT)
        except Unreadable:
            return
        self._remember(reply_of(self.reader.block, body))
