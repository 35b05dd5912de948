"""Delivers replies to a client: the upstream's, perhaps changed by faults, or the gateway's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Step
from wirefault.faults.base import Pings
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.bodies import (
    FAULTED_START,
    BodyStart,
    SentPieces,
    ServerReply,
    UpstreamStart,
)
from wirefault.gateway.exchange.carrier import Carrier, MessageReader, ReplyWriter, SentReply
from wirefault.gateway.exchange.client import Client
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.reply_changes import ReplyChanges
from wirefault.gateway.http1.framing import Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import refusal


class ReplyDelivery:
    """Delivers the reply of the exchange in progress; after ``finish`` the next one's can begin.

    ``on_written(ending)`` is called when the writer has written all steps, ``on_backlog()`` when the backlog
    of bytes for the client changes.
    """

    reader: MessageReader | None
    """Follows the upstream's reply while one is expected."""
    changes: ReplyChanges | None
    """Changes by faults; None without such faults."""
    writer: ReplyWriter | None
    """Writes the steps of a reply that faults make; None without such faults."""
    hanging: bool
    """A fault makes the client wait."""

    def __init__(
        self,
        client: Client,
        carrier: Carrier,
        on_written: Callable[[Ending], None],
        on_backlog: Callable[[], None],
    ) -> None:
        self._client = client
        self._carrier = carrier
        self._size = carrier.size
        self._on_written = on_written
        self._on_backlog = on_backlog
        self.reader = self.changes = self.writer = None
        self.hanging = False
        self._hang_limit: asyncio.TimerHandle | None = None
        self._hang_limit_s = 0.0
        self._ping: asyncio.TimerHandle | None = None

    # state

    @property
    def begun(self) -> bool:
        """Whether the client may have a part of its reply."""
        return self.writer is not None or (self.reader is not None and self.reader.begun)

    @property
    def behind(self) -> bool:
        """Whether more bytes for the client would only pile up here."""
        return self._client.full or (self.writer is not None and self.writer.behind)

    @property
    def held_up(self) -> bool:
        """Whether only a fault keeps the client waiting."""
        return self.hanging or (self.writer is not None and self.writer.waiting)

    def hang(self, exchange: Exchange, on_limit: Callable[[], None]) -> None:
        """Make the client wait; call ``on_limit`` when the fault's time limit has passed."""
        self.hanging = True
        fault = self.acting_fault(exchange)
        # over stdio the end of one call's wait would end the whole session
        seconds = 0.0
        if fault is not None and not exchange.listener.is_lines:
            seconds = fault.fault.hang_s if fault.act.hang_s is None else fault.act.hang_s
        if fault is not None and seconds:
            self._hang_limit = asyncio.get_running_loop().call_later(seconds, on_limit)
            self._hang_limit_s = seconds
        if fault is not None and fault.act.pings is not None:
            self._ping_later(exchange, fault, fault.act.pings)

    def _ping_later(self, exchange: Exchange, fault: MetFault, pings: Pings) -> None:
        """Keep the stream that hangs alive."""

        def ping() -> None:
            writer, changes = self.writer, self.changes
            if writer is None or changes is None:
                return
            if not self._client.full:
                for step in self._carrier.stream_steps(changes.upstream_reply.head, (pings.event,)):
                    if isinstance(step, bytes):
                        self.write(exchange, writer.sent_reply.take(step))
                fault.evidence["pings"] = fault.evidence.get("pings", 0) + 1
            self._ping_later(exchange, fault, pings)

        self._ping = asyncio.get_running_loop().call_later(pings.every_s, ping)

    def note_hang_ended(self, exchange: Exchange) -> None:
        """Record in the fault that the gateway ended the wait."""
        fault = self.acting_fault(exchange)
        if fault is not None:
            fault.evidence["closed_after_s"] = self._hang_limit_s

    def acting_fault(self, exchange: Exchange) -> MetFault | None:
        """Return the fault that answered the request or changed its reply."""
        if self.changes is not None:
            return self.changes.upstream_reply.changed_by
        return exchange.plan.request_fault if exchange.plan is not None else None

    # the upstream's reply

    def expect(self, exchange: Exchange, head: RequestHead) -> None:
        """Prepare for the upstream's reply to that head."""
        reply, listener, run = exchange.reply, exchange.listener, exchange.origin.run
        decision = exchange.decision
        may_ask_model = exchange.is_model or (listener.dialect_by_request and exchange.may_ask_model)
        if run is not None and may_ask_model:
            reply.pieces = SentPieces()
        observe = _server_sink(exchange) if listener.may_be_mcp else None
        memory = None
        if run is not None and decision is not None and decision.remembers_reply:
            memory = partial(run.matcher.remember, exchange.origin.episode, listener.name)
        candidates = exchange.plan.reply_candidates if exchange.plan is not None else ()
        swallow_continue = exchange.continue_sent
        if not candidates and memory is None:
            sink = _body_sink(exchange)
            if observe is not None:
                sink = _both(sink, observe)
            self.reader = self._carrier.reader(head, swallow_continue, sink)
            return
        self.changes = ReplyChanges(
            candidates,
            head,
            self._carrier,
            keep_alive=exchange.keep_alive,
            swallow_continue=swallow_continue,
            remember=_remember_in(reply.pieces, memory) if reply.pieces else memory,
            observe=_both(observe, _upstream_sink(exchange)),
        )
        self.reader = self.changes.reader
        self.writer = self._new_writer(exchange)

    def feed(self, exchange: Exchange, reader: MessageReader, data: bytes) -> bytes:
        """Give the client its part of these bytes; return the bytes after the reply's end."""
        if self.changes is not None and self.writer is not None:
            steps, surplus = self.changes.feed(data)
            self._note_act(self.changes)
            self.writer.add(steps)
            self._on_backlog()
            return surplus
        passed, surplus = reader.feed(data)
        self.write(exchange, passed)
        if reader.head is not None:
            exchange.reply.status = reader.head.status
        return surplus

    def complete(self, exchange: Exchange) -> bool:
        """End the upstream's reply. True if the client has all of it; else ``on_written`` follows."""
        if self.changes is None or self.writer is None:
            exchange.reply.done = True
            return True
        self.reader = None
        steps = self.changes.end()
        self._note_act(self.changes)
        self.writer.add(steps)
        self.writer.finish(self.changes.ending)
        return False

    def _note_act(self, changes: ReplyChanges) -> None:
        changed_by = changes.upstream_reply.changed_by
        if changed_by is not None:
            changed_by.mark_acting(time.perf_counter())

    def break_off(self, exchange: Exchange, reader: MessageReader, reason: str | None) -> bool:
        """End an upstream's reply that broke off. True if the client has all that came, as ``complete``."""
        steps = self.changes.fail() if self.changes else (reader.take_rest(),)
        exchange.error = reader.broken_off(reason, begun=reader.begun or any(steps))
        exchange.mark_faults_not_injected("upstream_failed")
        if self.writer is None:
            self.write(exchange, b"".join(step for step in steps if isinstance(step, bytes)))
            return True
        self.reader = None
        self.writer.add(steps)
        self.writer.finish("close")
        return False

    # the gateway's own reply

    def answer(self, exchange: Exchange, reply: Reply) -> None:
        """Write the gateway's own reply; nothing of the upstream's can follow."""
        self.writer = self.changes = None
        exchange.reply.status = reply.status
        exchange.reply.done = True
        sink = _body_sink(exchange)
        if sink is not None:
            sink(reply.body)
        for step in self._steps_of(exchange, reply)[0]:
            if isinstance(step, bytes):
                self.write(exchange, step)

    def _steps_of(self, exchange: Exchange, reply: Reply | ReplyInPieces) -> tuple[Sequence[Step], Ending]:
        head_only = exchange.head.method == "HEAD"
        return self._carrier.steps_of(reply, keep_alive=exchange.keep_alive, head_only=head_only)

    def answer_by_fault(
        self, exchange: Exchange, fault: MetFault, answer: Reply | ReplyInPieces
    ) -> Reply | None:
        """Begin a fault's answer. If it cannot be sent, return the gateway's own reply instead."""
        delivery = fault.guarded(self._steps_of, exchange, answer)
        if delivery is None:
            return refusal(502, "bad_gateway", f"the fault {fault.id} made no reply")
        fault.mark_injected()
        fault.mark_acting(time.perf_counter())
        self.writer = self._new_writer(exchange)
        self.writer.add(delivery[0])
        self.writer.finish(delivery[1])
        return None

    # writing

    def write(self, exchange: Exchange, data: bytes) -> None:
        """Send bytes of the reply."""
        if data:
            exchange.ended = time.perf_counter()  # before the client may react to it
            self._client.write(data)
            reply = exchange.reply
            reply.size += self._size(data)
            if reply.pieces is not None:
                reply.pieces.keep(exchange.ended, data)

    def resume(self) -> None:
        """Continue: the client reads again."""
        if self.writer is not None:
            self.writer.run()
        self._on_backlog()

    def _new_writer(self, exchange: Exchange) -> ReplyWriter:
        def write(data: bytes) -> None:
            self.write(exchange, data)
            self._on_backlog()

        return ReplyWriter(
            SentReply(exchange.head, self._carrier, _body_sink(exchange)),
            write,
            lambda: self._client.full,
            lambda: exchange.attempt_is_over,
            self._on_written,
        )

    # the end

    def finish(self, exchange: Exchange, *, client_was_gone: bool) -> None:
        """End the reply, and record in its fault what the client was sent.

        ``client_was_gone``: the client got nothing of the bytes that were written after it half-closed.
        """
        writer, changes, reader = self.writer, self.changes, self.reader
        reply, plan = exchange.reply, exchange.plan
        self.reader = None
        if self._hang_limit is not None:
            self._hang_limit.cancel()
            self._hang_limit = None
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None
        upstream = changes.reader if changes is not None else reader
        if upstream is not None and upstream.head is not None:
            reply.upstream_status = upstream.head.status
            reply.reader = upstream
            if reply.upstream is not None:
                reply.upstream.reader = upstream
            if reply.server_reply is not None:
                reply.server_reply.reader = upstream
        if writer is None and plan is None and not client_was_gone:
            return  # the usual case
        fault = self.acting_fault(exchange)
        if writer is not None:
            reply.reader = writer.sent_reply.reader if writer.sent_reply.reader.head is not None else None
            self.writer = self.changes = None
            self.hanging = False
            writer.stop()
            reply.status = writer.sent_reply.status
        if plan is not None:
            plan.mark_answered(upstream_answered=exchange.forwarded and reply.status is not None)
        if client_was_gone:  # it never read the bytes written since
            reply.done = False
            reply.size = reply.size_before_eof
            if not reply.size:
                reply.status = None
        if writer is None or fault is None or not fault.injected:
            return
        # of a client that half-closed before the request began, nothing is known from before it
        eof_at = exchange.began if reply.client_eof_at is None else reply.client_eof_at
        if client_was_gone and fault.began_after(eof_at):
            fault.take_back("cut_short")
        else:
            _account_for(fault, writer, changes, client_was_gone)


def _body_sink(exchange: Exchange) -> Sink | None:
    """Return where the record collects the reply's body; None if it keeps none of it."""
    run = exchange.origin.run
    if run is None or not (run.keeps_bodies or exchange.plan is not None or exchange.crosses_toxic):
        return None
    start = exchange.reply.body_start = BodyStart() if run.keeps_bodies else BodyStart(FAULTED_START)
    return start.keep


def _upstream_sink(exchange: Exchange) -> Sink | None:
    """Return where to collect the upstream's body before faults change it; None if none of them may."""
    if exchange.origin.run is None or exchange.plan is None:
        return None
    exchange.reply.upstream = UpstreamStart()
    return exchange.reply.upstream.body_start.keep


def _server_sink(exchange: Exchange) -> Sink | None:
    """Return where to collect the server's reply to a message of MCP; None if it is not recorded."""
    is_plain = exchange.keyed and exchange.message is None
    if exchange.origin.run is None or exchange.head.method != "POST" or is_plain:
        return None
    exchange.reply.server_reply = ServerReply()
    return exchange.reply.server_reply.keep


def _both(first: Sink | None, second: Sink | None) -> Sink | None:
    if first is None or second is None:
        return first or second

    def feed_both(data: bytes) -> None:
        first(data)
        second(data)

    return feed_both


def _remember_in(pieces: SentPieces, memory: Callable[[Reply], None] | None) -> Callable[[Reply], None]:
    """Keep the upstream's reply for its token usage, and for faults that repeat it."""

    def remember(reply: Reply) -> None:
        pieces.upstream = reply
        if memory is not None:
            memory(reply)

    return remember


def _account_for(
    fault: MetFault, writer: ReplyWriter, changes: ReplyChanges | None, client_left: bool
) -> None:
    """Record what the client was sent by the fault that answered it or changed its reply."""
    sent_reply = writer.sent_reply
    fault.shows.update({"lost": True, "left": True} if client_left else sent_reply.shows())
    fault.content = (
        not client_left
        and sent_reply.whole
        and (changes is None or sent_reply.digest != changes.upstream_reply.digest.hexdigest())
    )
    if writer.waited:
        fault.mark_delayed(writer.waited * 1000)
