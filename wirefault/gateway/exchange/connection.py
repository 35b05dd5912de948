"""One client's connection: its requests one after the other, forwarded or held for faults."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from wirefault.dialects.mcp import has_mcp_header
from wirefault.gateway.exchange.client import ClientTransport, PauseReason
from wirefault.gateway.exchange.relay import CLIENT_LEFT, FaultDelay, RequestRelay, ToxicsWait
from wirefault.gateway.exchange.request import (
    RequestInProgress,
    ask_faults,
    can_be_decided,
    decide,
    may_meet_fault,
)
from wirefault.gateway.http1.framing import BadBody
from wirefault.gateway.http1.heads import BadHead, RequestHead, find_head
from wirefault.gateway.http1.messages import CONTINUE
from wirefault.gateway.lane import Lane, LaneAttempt, LinkListener

_LONG = 64 * 1024


class RequestQueue:
    """``waiting``: the bytes of requests not yet begun; ``arrived``: when their first came."""

    def __init__(self) -> None:
        self.waiting = b""
        self.arrived = 0.0

    @property
    def is_long(self) -> bool:
        """Whether so many bytes wait that the client should stop sending."""
        return len(self.waiting) > _LONG

    def add(self, data: bytes, now: float) -> None:
        if self.waiting:
            self.waiting += data
        else:
            self.waiting, self.arrived = data, now

    def next_head(self) -> RequestHead | None:
        """Takes the next request's head out; None if it is not whole yet. Raises ``BadHead``."""
        head, self.waiting = find_head(self.waiting)
        return head

    def take_all(self) -> bytes:
        """Takes out all that waits."""
        waiting, self.waiting = self.waiting, b""
        return waiting


class AttemptMembership:
    """On a tool link a connection belongs to the attempt that was current when it was accepted, or else to
    that of its first request. On the model link it belongs to none: each request names its own attempt.

    ``attempt`` is the one that waits for the connection until it does ``leave``, None while none does.
    """

    def __init__(self, lane: Lane, *, is_tool: bool) -> None:
        self._lane = lane
        self._is_tool = is_tool
        self.attempt: LaneAttempt | None = None

    @property
    def outlived(self) -> bool:
        """Whether it belongs to an attempt that has ended, so that its requests belong to none."""
        return self._is_tool and self.attempt is not None and self.attempt is not self._lane.attempt

    def accept(self) -> None:
        """The connection is there."""
        if self._is_tool:
            self.join(self._lane.attempt)

    def join(self, attempt: LaneAttempt | None) -> None:
        """From here on that attempt waits for the connection, unless another one does."""
        if self.attempt is None and attempt is not None:
            self.attempt = attempt
            attempt.opened()

    def of_request(self) -> LaneAttempt | None:
        """The attempt of a request that begins now, as far as the connection tells."""
        if not self._is_tool:
            return self._lane.attempt
        if self.attempt is None:
            self.join(self._lane.attempt)
        return self.attempt

    def leave(self) -> None:
        """Nothing is left of the connection. To be called once."""
        if self.attempt is not None:
            self.attempt.closed()


_CLIENT_LEFT_EARLY = "the client left before its request was complete"
_ATTEMPT_OVER = "the attempt ended before its reply was complete"
_STREAM_CLOSED = "the attempt ended, and with it the stream"
_OUTLIVED = "this connection belongs to an attempt that is over: open a new one"
# Toxiproxy closes its side within milliseconds.
_DRAIN_S = 0.5


class ClientConnection(asyncio.Protocol):
    """Takes a client's requests one by one, has their faults decided, and hands them to its relay.

    Bytes of later requests wait in the queue. The connection's attempt waits for it until nothing of it is
    left: neither the client, nor an upstream that has still to get what the client sent. Once that attempt
    has ended, no request is taken from it.
    """

    client: ClientTransport
    relay: RequestRelay

    def __init__(self, listener: LinkListener) -> None:
        self.listener = listener
        self.membership = AttemptMembership(listener.lane, is_tool=not listener.is_model)
        self.queue = RequestQueue()
        self._delay: FaultDelay | ToxicsWait | None = None
        self._taking_up = self._left = self._drained = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = ClientTransport(cast(asyncio.Transport, transport))
        self.relay = RequestRelay(self.listener, self.client, self)
        self.listener.lane.connections.add(self)
        self.membership.accept()
        self._end_if_over()

    # what the client does

    def data_received(self, data: bytes) -> None:
        if self.client.closing:
            return
        request = self.relay.request
        if request is None:
            self.queue.add(data, time.perf_counter())
            self._take_up_requests()
        elif not request.request_done:
            self._on_body(request, data)
        elif self.relay.tunnel:
            request.request_bytes += len(data)
            self.relay.upstream.send(data)
        else:
            self.queue.add(data, time.perf_counter())
            self.client.pause(PauseReason.REQUESTS_WAIT, self.queue.is_long)

    def eof_received(self) -> bool:
        """A client that has said all may still want its answer; one that stopped half-way is gone."""
        self.client.half_closed = True
        self.relay.note_client_eof()
        if self.client.closing or self.relay.reply.hanging or not self._client_wants_reply():
            if self.relay.request is not None:
                self.client.break_off()
            return False
        self.relay.pass_on_eof()
        return True

    def _client_wants_reply(self) -> bool:
        request = self.relay.request
        if request is not None and not request.request_done:
            request.error = _CLIENT_LEFT_EARLY
        return request is not None and request.request_done

    def connection_lost(self, error: Exception | None) -> None:
        self.client.lost = True
        self.client.stop_timer()
        request = self.relay.request
        if self._delay is not None and request is not None and request.request_done:
            return  # on a slow network, too, the request would arrive
        self._stop_delay()
        self._on_client_gone()

    def _on_client_gone(self) -> None:
        """Ends all that the client had begun, except a whole request that is on its way."""
        request = self.relay.request
        if request is not None and request.request_done and self.relay.upstream.connecting:
            # a server that is reached directly would have had the request: this one still gets it
            self.relay.upstream.close()
            return
        self.relay.give_up(CLIENT_LEFT)
        if request is None or request.request_done:
            self.relay.upstream.close()
        else:
            self.relay.upstream.drop()
        self.leave()

    def pause_writing(self) -> None:
        self.client.full = True
        self.relay.upstream.throttle()

    def resume_writing(self) -> None:
        self.client.full = False
        self.relay.reply.resume()

    # what the lane and the relay say

    @property
    def requests_wait(self) -> bool:
        return bool(self.queue.waiting)

    def end(self, reason: str) -> None:
        """Closes both sides at once; a request in progress is recorded with that reason."""
        self._stop_delay()
        self.relay.give_up(reason)
        self.relay.upstream.drop()
        self.client.abort()
        self.leave()

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: nothing is held up by a fault, streams are closed, and what is idle ends."""
        if self._has_request_of(attempt):
            if self._delay is not None:
                self._delay.expire()
            if self._has_request_of(attempt) and self.relay.reply.held_up:
                self.end(_ATTEMPT_OVER)
            elif self._has_request_of(attempt) and self.relay.streams:
                self.end(_STREAM_CLOSED)
        elif self._idle and (self.membership.attempt is attempt or self.listener.is_model):
            self._drain(attempt)

    def cut_off(self, attempt: LaneAttempt) -> None:
        """The attempt waits no more: ends the connection if no request is unanswered on it."""
        if self._drained and self.membership.attempt is attempt and self.relay.request is None:
            self.end(_ATTEMPT_OVER)

    def _end_if_over(self) -> None:
        """Ends the connection if it has no request and its attempt is over."""
        attempt = self.membership.attempt
        if self._drained:
            if self._idle:
                self.client.close()
        elif attempt is not None and attempt.settling and self._idle:
            self._drain(attempt)

    @property
    def _idle(self) -> bool:
        return self.relay.request is None and not self.queue.waiting and not self.client.closing

    def _drain(self, attempt: LaneAttempt) -> None:
        """Tells the client that no more is answered; a request that a toxic held on its way is still taken.

        The attempt waits for the end: the client then knows of it before it can use the connection again.
        """
        self._drained = True
        self.membership.join(attempt)
        self.client.stop_answering(_DRAIN_S)

    def _has_request_of(self, attempt: LaneAttempt) -> bool:
        return self.relay.request is not None and self.relay.request.attempt is attempt

    def on_request_finished(self) -> None:
        if self.queue.waiting or self.client.half_closed:
            self._take_up_requests()
        self._end_if_over()

    def on_tunnel(self) -> None:
        if self.queue.waiting:  # what the client sent before its connection became a tunnel
            self.client.pause(PauseReason.REQUESTS_WAIT, False)
            self.data_received(self.queue.take_all())

    def leave(self) -> None:
        """Nothing is left of the connection: its attempt need not wait for it any more."""
        if not self._left:
            self._left = True
            self.listener.lane.connections.discard(self)
            self.membership.leave()

    # requests

    def _take_up_requests(self) -> None:
        """Begins the requests that wait, one after the other, as far as they go."""
        if self._taking_up:
            return
        queue, relay, client = self.queue, self.relay, self.client
        self._taking_up = True
        try:
            while queue.waiting and relay.request is None and not client.closing:
                if not self._take_up():
                    break
        finally:
            self._taking_up = False
        if queue.waiting or client.pause_reasons:
            client.pause(PauseReason.REQUESTS_WAIT, queue.is_long)
        if client.half_closed and not client.closing and not self._client_wants_reply():
            client.close()

    def _take_up(self) -> bool:
        """Begins the next request; False if its header block is not whole yet, or is refused."""
        queue = self.queue
        try:
            head = queue.next_head()
        except BadHead as error:
            self._refuse(error)
            return False
        if head is None:
            if queue.waiting:
                self.client.start_timer(self.listener.head_timeout, self._on_head_timeout)
            return False
        self.client.stop_timer()
        request = self._new_request(head)
        if self.membership.outlived:
            self._refuse(BadHead(_OUTLIVED, 421))
            return False
        data = queue.take_all() if queue.waiting else b""
        if may_meet_fault(request):
            ask_faults(request)
            if request.held is not None and not request.decided and head.expects_continue:
                request.swallow_continue = True
                self.relay.reply.write(request, CONTINUE)
        if request.decided and request.held is not None:
            if data:
                queue.add(data, time.perf_counter())
            self._carry_out_plan(request)
        else:
            self._on_body(request, data)
        return True

    def _on_head_timeout(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_request(self, head: RequestHead) -> RequestInProgress:
        request = self.relay.request = RequestInProgress(
            self.listener.name, head, self.queue.arrived, self.listener.is_model, self.listener.no_message
        )
        if self.client.tls:
            request.tls, self.client.tls = self.client.tls, "kept"
        request.of_lines = self.listener.of_lines
        if self.listener.dialect_by_request:
            request.may_be_mcp = True
            request.message = "" if has_mcp_header(head.lines) else None
        request.identify(self.listener.lane.run, self.membership.of_request())
        if self._drained:
            request.error = CLIENT_LEFT
        return request

    def _on_body(self, request: RequestInProgress, data: bytes) -> None:
        """Takes what there is of the body (maybe nothing) and sends it on, unless faults may act on it."""
        if data:
            try:
                used = request.take_body(data)
            except BadBody as error:
                self._refuse(BadHead(str(error)))
                return
            if used < len(data):
                self.queue.add(data[used:], time.perf_counter())
                data = data[:used]
        if request.held is not None:
            request.held.append(data)
            if not request.decided and can_be_decided(request):
                decide(request)
                self._carry_out_plan(request)
            return
        if request.plan is None or not request.plan.answers:
            if request.forwarding:
                self.relay.upstream.send(data)
            else:
                self.relay.forward(request, data)
        if request.request_done:
            self.relay.on_request_done(request)

    def _refuse(self, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        request = self.relay.request or self._new_request(RequestHead("", "", [], len(self.queue.waiting)))
        self.queue.take_all()
        self.relay.refuse(request, error)

    # faults, before the request goes on

    def _carry_out_plan(self, request: RequestInProgress) -> None:
        """Lets the request go on, now or when its link's toxics are as its call is to meet them."""
        if not request.waits_for_toxics:
            self._delay_or_go_on(request)
            return
        self._delay = ToxicsWait(request, self._on_toxics_changed)
        self.client.pause(PauseReason.FAULT_DELAY, not request.request_done)

    def _on_toxics_changed(self, request: RequestInProgress) -> None:
        self._delay = None
        self.client.pause(PauseReason.FAULT_DELAY, False)
        if self.relay.request is request:
            self._delay_or_go_on(request)

    def _delay_or_go_on(self, request: RequestInProgress) -> None:
        """Lets the request go on, now or after the delay that its faults add."""
        seconds = request.plan.delay if request.plan else 0.0
        if not seconds or request.attempt_is_over:
            self._go_on(request)
            return
        self._delay = FaultDelay(request, seconds, self._on_delay_over)
        self.client.pause(PauseReason.FAULT_DELAY, not request.request_done)

    def _on_delay_over(self, request: RequestInProgress) -> None:
        self._delay = None
        self.client.pause(PauseReason.FAULT_DELAY, False)
        if self.relay.request is request:
            self._go_on(request)

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.stop()
            self._delay = None

    def _go_on(self, request: RequestInProgress) -> None:
        """Forwards what was held, or throws it away if a fault answers."""
        held = request.take_held()
        if not request.answered_by_fault:
            self.relay.forward(request, held)
        if request.request_done and not (self.client.lost and request.answered_by_fault):
            self.relay.on_request_done(request)
        if self.client.lost and self.relay.request is request:
            self._on_client_gone()
