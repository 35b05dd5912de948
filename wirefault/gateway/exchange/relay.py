"""Relays one client's exchange: the request to the upstream, the reply to the client."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol

from wirefault.dialects.http import SAFE_METHODS, Ending, Reply
from wirefault.dialects.mcp import ToolAnswer
from wirefault.faults.plan import MetFault
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.bodies import ServerReply
from wirefault.gateway.exchange.carrier import HTTP, Carrier, MessageReader
from wirefault.gateway.exchange.client import Client, PauseReason
from wirefault.gateway.exchange.decision import call_name, may_write
from wirefault.gateway.exchange.delivery import ReplyDelivery
from wirefault.gateway.exchange.episode_state import note_end_of_try, note_write
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.outage import reply_outage
from wirefault.gateway.exchange.record import record_exchange
from wirefault.gateway.exchange.tunnel import Tunnel
from wirefault.gateway.exchange.upstream import UpstreamLink
from wirefault.gateway.http1.heads import BadHead, RequestHead
from wirefault.gateway.http1.messages import refusal
from wirefault.gateway.kills import KillEnd
from wirefault.gateway.lane import LinkListener
from wirefault.gateway.replayed_model import replayed
from wirefault.gateway.run import Run
from wirefault.history.events import WhyNotIntercepted
from wirefault.state.tables import KillOrder

HANG_ENDED = "a fault let the client wait until the gateway closed the connection"
SUBJECT_KILLED = "the subject was killed here"
CLIENT_LEFT = "the client left before its reply was complete"


class RelayOwner(Protocol):
    """The connection that a relay reports to."""

    @property
    def requests_wait(self) -> bool:
        """Whether bytes of later requests wait behind this one."""

    def on_request_finished(self) -> None:
        """The exchange is over and recorded, and the connection stays open."""

    def on_tunnel(self) -> None:
        """The connection has changed its protocol: the upstream gets all that the client sends."""

    def leave(self) -> None:
        """The client has left, and no request of it is on the way to the upstream: the connection is over."""


class RequestRelay:
    """Relays one exchange after the other; ``exchange`` is the one in progress."""

    def __init__(
        self, listener: LinkListener, client: Client, owner: RelayOwner, carrier: Carrier = HTTP
    ) -> None:
        self._listener = listener
        # a tool has the same upstream in all runs
        self._endpoint = None if listener.is_model else listener.endpoint
        self._client = client
        self._owner = owner
        self._carrier = carrier
        self.upstream = UpstreamLink(self, listener.connect_timeout, lambda: self._behind)
        self.delivery = ReplyDelivery(client, carrier, self._on_written, self.upstream.throttle)
        self.exchange: Exchange | None = None
        self._copies: RequestCopies | None = None
        self._tunnel: Tunnel | None = None
        self.killing = False
        """The exchange waits until its client is killed."""

    @property
    def _behind(self) -> bool:
        """Whether more bytes for the client would only pile up here."""
        return self.delivery.behind or (self._tunnel is not None and self._tunnel.behind)

    @property
    def tunnel(self) -> bool:
        """Whether the connection has changed its protocol."""
        return self.delivery.reader is not None and self.delivery.reader.tunnel

    @property
    def streams(self) -> bool:
        """Whether the upstream sends a reply that may never end: an event stream or a tunnel."""
        reader = self.delivery.reader
        if reader is None or reader.head is None:
            return False
        return reader.tunnel or reader.message.stream_form is not None

    def take_in_tunnel(self, data: bytes) -> None:
        """Take the client's bytes after the change of protocol."""
        if self._tunnel is not None:
            self._tunnel.take("client", data)

    # towards the upstream

    def forward(self, exchange: Exchange, body: bytes) -> None:
        """Send the header block and the part of the body that is here, and prepare for the reply."""
        exchange.forwarding = True
        attempt = exchange.origin.attempt
        if self._listener.is_function and attempt is not None:
            attempt.open_functions.begin(id(exchange), exchange.path)
        endpoint = self._endpoint_of(exchange)
        upstream = self.upstream.open(endpoint)
        is_lab_tool = self._endpoint is not None and endpoint.is_lab
        lab_headers = attempt.lab_headers if is_lab_tool and attempt is not None else b""
        head, message = self._carrier.request_for(exchange.head, body, exchange.plan, endpoint, lab_headers)
        fault = exchange.plan.request_fault if exchange.plan is not None else None
        if fault is not None and fault.act.copies > 1:
            self._copies = RequestCopies(
                fault, head, message, tool_call=bool(exchange.tool), carrier=self._carrier
            )
        else:
            self.delivery.expect(exchange, head)
        upstream.send(message)

    def _endpoint_of(self, exchange: Exchange) -> Endpoint:
        run = exchange.origin.run
        endpoint = self._endpoint or self._listener.endpoint_in(run)
        if run is None:
            return endpoint
        if exchange.is_model:
            return _model_endpoint(exchange, run, endpoint)
        if run.writes is None:
            return endpoint
        return run.writes.endpoint(
            self._listener.link, call_name(exchange), endpoint, may_write=may_write(exchange)
        )

    def on_request_done(self, exchange: Exchange) -> None:
        """The whole request is here and forwarded, unless a fault answers it."""
        fault = exchange.plan.request_fault if exchange.plan is not None else None
        if fault is not None and fault.act.answer is not None:
            own_reply = self.delivery.answer_by_fault(exchange, fault, fault.act.answer)
            if own_reply is not None:
                self.delivery.answer(exchange, own_reply)
                self._finish(exchange)
            return
        connection = self.upstream.connection
        if connection is not None:
            exchange.forwarded = not connection.connecting
            if self._client.half_closed:
                self.pass_on_eof()
        if exchange.reply.done:
            self._finish(exchange)

    def _send_copy(self, exchange: Exchange, copies: RequestCopies) -> None:
        copies.next_copy()
        if not copies.left:
            self.delivery.expect(exchange, copies.head)
        self.upstream.open(self._endpoint_of(exchange)).send(copies.message)
        self.pass_on_eof()

    def pass_on_eof(self) -> None:
        """Half-close towards the upstream if the client has, once all its bytes are on their way."""
        if not self._client.half_closed:
            return
        if self._tunnel is not None:
            self._tunnel.hurry("client")
        exchange = self.exchange
        copies_wait = self._copies is not None and self._copies.left > 0
        request_waits = exchange is not None and exchange.waiting is not None
        # many servers would close on it, and then it is unknown when they have carried out the request
        only_awaited = exchange is not None and exchange.attempt_is_over
        if not (self._owner.requests_wait or copies_wait or request_waits or only_awaited):
            self.upstream.send_eof()

    def note_client_eof(self) -> None:
        """The client half-closes. It may have left, or still read: only a later write shows which."""
        if self.exchange is not None:
            reply = self.exchange.reply
            reply.client_eof_at, reply.size_before_eof = time.perf_counter(), reply.size

    # events of the upstream

    def on_connected(self) -> None:
        if self.exchange is not None and self.exchange.request_done:
            self.exchange.forwarded = True
        if self._client.lost:
            self.give_up(CLIENT_LEFT)
            self._owner.leave()

    def on_unreachable(self, reason: str) -> None:
        if self.exchange is not None:
            self.exchange.unavailable = True
        self._answer_instead(reason, refusal(502, "bad_gateway", reason))

    def on_untrusted(self, why: WhyNotIntercepted, reason: str) -> None:
        if self.exchange is not None and self.exchange.origin.run is not None:
            origin, run = self.exchange.origin, self.exchange.origin.run
            self.exchange.unavailable = True
            run.record_no_interception(
                origin.episode, origin.attempt_number, self._listener.link, why, reason
            )
        text = f"no TLS between the lab and {self._listener.name}: {reason}"
        if why == "upstream_untrusted":
            text = f"the lab does not trust the certificate of {self._listener.name}: {reason}"
        self._answer_instead(text, refusal(502, "bad_gateway", text))

    def on_unavailable(self, reason: str) -> None:
        if self.exchange is not None:
            self.exchange.unavailable = True
            self.exchange.forwarded = False
        # not a 5xx: clients would wait and try again
        is_model = self.exchange is None or self.exchange.is_model
        reply = refusal(404, "model_unavailable", reason) if is_model else refusal(403, "refused", reason)
        self._answer_instead(reason, reply)

    def _answer_instead(self, reason: str, reply: Reply) -> None:
        """Answer for an upstream that gives no reply."""
        exchange = self.exchange
        self.upstream.drop()
        if exchange is None:
            return
        exchange.error = reason
        exchange.mark_faults_not_injected("upstream_failed")
        exchange.keep_alive = exchange.keep_alive and exchange.request_done
        if self._client.lost:
            self.give_up(reason)
            self._owner.leave()
        else:
            self.delivery.answer(exchange, reply)
            self._finish(exchange)

    def on_full(self, full: bool) -> None:
        self._client.pause(PauseReason.UPSTREAM_FULL, full)

    def on_reply(self, data: bytes) -> None:
        exchange, copies, delivery = self.exchange, self._copies, self.delivery
        reader = copies.reader if copies is not None and copies.left else delivery.reader
        if exchange is None or reader is None or exchange.reply.done:
            self.upstream.drop()  # bytes without a request
            return
        if copies is not None and copies.left:
            _, surplus = reader.feed(data)
            if reader.done:
                if surplus or not (reader.keep_alive and copies.head.keep_alive):
                    self.upstream.drop()  # a server may close without a word if the request asks for it
                self._send_copy(exchange, copies)
            return
        surplus = delivery.feed(exchange, reader, data)
        if reader.tunnel:
            self._on_tunnel_bytes(exchange, reader, surplus)
        elif delivery.changes.done if delivery.changes is not None else reader.done:
            if not reader.keep_alive:
                exchange.keep_alive = False
            if exchange.head.expects_continue and not exchange.request_done and not reader.continued:
                exchange.keep_alive = False  # the body may or may not follow: only a close is unambiguous
            if surplus or not reader.done:
                self.upstream.drop()
            self._on_reply_end(exchange, reader)

    def _on_tunnel_bytes(self, exchange: Exchange, reader: MessageReader, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.take("server", data)
            return
        self._tunnel = Tunnel(exchange, reader, self._client, self.upstream, self._cut_tunnel)
        self._tunnel.take("server", data)
        self._owner.on_tunnel()

    def _cut_tunnel(self, how: Ending) -> None:
        """A fault ends the connection on both sides."""
        exchange = self.exchange
        if exchange is None:
            return
        self.upstream.drop()
        exchange.keep_alive = False
        if how == "reset":
            self._record(exchange)
            self._client.reset()
        else:
            self._finish(exchange)

    def on_upstream_end(self, reason: str | None) -> None:
        self.upstream.drop()
        if self._tunnel is not None and self._tunnel.wait_for_server(partial(self.on_upstream_end, reason)):
            return
        exchange = self.exchange
        copies = self._copies if self._copies is not None and self._copies.left else None
        reader = copies.reader if copies else self.delivery.reader
        if exchange is None or reader is None:
            return
        in_order = reason is None and reader.ends_by_close
        if copies is not None and in_order:
            self._send_copy(exchange, copies)
            return
        exchange.keep_alive = False
        if copies is not None:
            reader.take_rest()  # the client gets nothing of that reply
        if exchange.reply.done:
            self._finish(exchange)
        elif in_order:
            self._on_reply_end(exchange, reader)
        else:
            if self._copies is not None:
                self._copies.note_reply(reader)
            # an upstream may close because its client has half-closed
            on_its_own = not self._client.half_closed and not reader.tunnel
            exchange.unavailable = exchange.request_done and (on_its_own or reader.error is not None)
            if self._client.half_closed:
                exchange.mark_faults_not_injected("cut_short")
            if self.delivery.break_off(exchange, reader, reason):
                self._finish(exchange)

    def _on_reply_end(self, exchange: Exchange, reader: MessageReader) -> None:
        """The upstream's reply has ended, or no more of it is needed."""
        if self._copies is not None:
            self._copies.note_reply(reader)
        if exchange.reply.server_reply is not None and reader.head is not None:
            exchange.reply.server_reply.reader = reader
        if reader.head is not None and exchange.head.method not in SAFE_METHODS:
            note_write(exchange, reader.head.status)
        if self.delivery.complete(exchange) and (exchange.request_done or not exchange.keep_alive):
            self._finish(exchange)

    # the end of an exchange

    def _on_written(self, ending: Ending) -> None:
        """The writer has sent the client the whole reply: end it as its faults require."""
        exchange, writer = self.exchange, self.delivery.writer
        assert exchange is not None and writer is not None
        sent_reply = writer.sent_reply
        sent_reply.end(ending, keep_alive=exchange.keep_alive)
        exchange.reply.done = sent_reply.whole and exchange.error is None
        client_waits = not (self._client.lost or self._client.half_closed)
        if ending == "hang" and not client_waits:
            exchange.client_left = True
        elif ending == "hang" and not exchange.attempt_is_over and self._kills_client(exchange):
            return
        elif ending == "hang" and not exchange.attempt_is_over:
            self.delivery.hang(exchange, partial(self._end_hang, exchange))
            self.upstream.drop()
            return
        # after less or more than one whole reply, the client cannot use the connection again
        one_reply = ending == "keep" and sent_reply.whole and not sent_reply.surplus
        exchange.keep_alive = exchange.keep_alive and one_reply
        if ending == "reset":
            self._record(exchange)
            self._client.reset()
        elif exchange.request_done or not exchange.keep_alive:
            self._finish(exchange)

    def _kills_client(self, exchange: Exchange) -> bool:
        """Order the kill of the subject, if a fault wants it here; the exchange waits for that."""
        fault, attempt = self.delivery.acting_fault(exchange), exchange.origin.attempt
        if fault is None or fault.act.kill is None or attempt is None or exchange.origin.run is None:
            return False
        kill = fault.act.kill
        order = KillOrder(
            exchange.origin.run.run_id,
            attempt.episode,
            attempt.number,
            0,
            exchange.listener.name,
            fault.id,
            kill.point,
            kill.signal,
            kill.grace_s,
            kill.wait_s,
        )
        self.killing = True
        self.delivery.hanging = True
        self.upstream.drop()
        on_end = partial(self._end_kill, exchange, fault)
        if not attempt.kills.begin(order, lambda: exchange.attempt_is_over, on_end):
            fault.take_back("already_faulted")
        return True

    def _end_kill(self, exchange: Exchange, fault: MetFault, how: KillEnd, why: str) -> None:
        """The subject is dead, or could not be killed: record the exchange and close its connection."""
        if self.exchange is not exchange:
            return
        self.killing = False
        if how != "dead":
            fault.take_back("failed" if how == "failed" else "cut_short")
            fault.detail = why
        else:
            has_reply = exchange.reply.done
            exchange.error = None if has_reply else SUBJECT_KILLED
            exchange.client_left = not has_reply
        exchange.keep_alive = False
        self._record(exchange)
        self._client.abort()
        self._owner.leave()

    def _end_hang(self, exchange: Exchange) -> None:
        """Close the connection of a client that still waits for a reply that a fault holds back."""
        if self.exchange is exchange:
            self.delivery.note_hang_ended(exchange)
            exchange.error, exchange.keep_alive = HANG_ENDED, False
            self._finish_now(exchange)

    def _finish(self, exchange: Exchange) -> None:
        """End the exchange. Whether a half-closed client was there to read is known a moment later."""
        if self._client.half_closed and exchange.reply.size > exchange.reply.size_before_eof:
            self._client.after_sending(partial(self._finish_checked, exchange))
        else:
            self._finish_now(exchange)

    def _finish_checked(self, exchange: Exchange, client_there: bool) -> None:
        if self.exchange is exchange:
            exchange.client_left = not client_there
            self._finish_now(exchange)

    def _finish_now(self, exchange: Exchange) -> None:
        """Record the exchange; the connection takes the next request, or closes."""
        self._record(exchange)
        if not exchange.keep_alive:
            self.upstream.drop()
            self._client.close(unread=not exchange.request_done, cut=not exchange.reply.done)
        else:
            self._owner.on_request_finished()

    def refuse(self, exchange: Exchange, error: BadHead) -> None:
        """Answer something that is not a request, and close."""
        exchange.request_done = exchange.keep_alive = False
        exchange.plan, exchange.error = None, str(error)
        if not self.delivery.begun:
            self.delivery.answer(exchange, refusal(error.status, "bad_request", str(error)))
        self._finish(exchange)

    def give_up(self, error: str) -> None:
        """Record the exchange in progress, which will not reach its end."""
        exchange, reader = self.exchange, self.delivery.reader
        if exchange is not None:
            exchange.error = exchange.error or error
            exchange.client_left = self._client.lost
            exchange.unavailable = exchange.unavailable or (reader is not None and reader.error is not None)
            self._record(exchange)

    def _record(self, exchange: Exchange) -> None:
        if self.killing:  # the attempt ended before the subject was dead
            self.killing = False
            killing_fault = self.delivery.acting_fault(exchange)
            if killing_fault is not None:
                killing_fault.take_back("cut_short")
        if self._tunnel is not None:
            self._tunnel.end()
        elif exchange.plan is not None:
            for fault in exchange.plan.message_candidates:
                fault.mark_not_injected("already_faulted" if exchange.plan.answers else "upstream_failed")
        self.exchange = self._copies = self._tunnel = None
        if exchange.forwarding and self._listener.is_function and exchange.origin.attempt is not None:
            exchange.origin.attempt.open_functions.end(id(exchange))
        self.delivery.finish(exchange, client_was_gone=exchange.client_left and self._client.half_closed)
        if exchange.reply.upstream_status is not None and exchange.head.method not in SAFE_METHODS:
            note_write(exchange, exchange.reply.upstream_status)
        if exchange.client_left:
            exchange.error = exchange.error or CLIENT_LEFT
        if exchange.plan is not None and exchange.fault_is_cause:
            exchange.unavailable = False
        elif not exchange.unavailable and exchange.origin.run is not None:
            exchange.outage = reply_outage(exchange)
            exchange.unavailable = bool(exchange.outage)
        record_exchange(exchange)
        note_end_of_try(exchange)


def _model_endpoint(exchange: Exchange, run: Run, usual: Endpoint) -> Endpoint:
    """Return what answers a model's request: the model, recorded or not, or a recorded reply."""
    if run.replay is None:
        return usual
    if exchange.decision is not None and exchange.decision.replayed is not None:
        return replayed(usual, exchange.decision.replayed)
    return run.replay.recording(exchange.listener.name, exchange.dialect, usual)


class RequestCopies:
    """Copies of a request that a fault repeats; the client gets the reply to the last one.

    For a tool call of MCP, the evidence has the answer to each copy but the last.
    """

    def __init__(
        self, fault: MetFault, head: RequestHead, message: bytes, *, tool_call: bool, carrier: Carrier = HTTP
    ) -> None:
        self.message = message
        self.head = head
        self._carrier = carrier
        self.left = fault.act.copies - 1
        """Copies to send after the current one."""
        self._fault = fault
        fault.answered = False
        self._statuses: list[int] = []
        self._tool_answers: list[ToolAnswer] | None = [] if tool_call else None
        self.reader = self._new_reader()
        """Follows the reply to the current copy, unless it is the last one."""

    def _new_reader(self) -> MessageReader:
        self._server_reply = ServerReply()
        sink = None if self._tool_answers is None else self._server_reply.keep
        return self._carrier.reader(self.head, True, sink)

    def note_reply(self, reader: MessageReader) -> None:
        """Add the status of a copy's reply to the fault's evidence, even if the reply is not whole."""
        if reader.head is not None:
            self._statuses.append(reader.head.status)
            self._fault.answered = len(self._statuses) > 1

    def next_copy(self) -> None:
        """The reply to the current copy is over: the next one is sent now."""
        self.note_reply(self.reader)
        self.left -= 1
        evidence: dict[str, object] = {"statuses": self._statuses}
        if self._tool_answers is not None:
            self._server_reply.reader = self.reader
            self._tool_answers.append(self._server_reply.tool_answer)
            evidence["tool_answers"] = self._tool_answers
        self._fault.mark_injected(evidence)
        self._fault.mark_acting(time.perf_counter())
        if self.left:
            self.reader = self._new_reader()
