"""One client's connection: its requests one after the other, forwarded or held for faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

from wirefault.gateway.exchange.client import ClientTransport, PauseReason
from wirefault.gateway.exchange.exchange import Exchange, ask_faults, can_be_decided, decide, may_meet_fault
from wirefault.gateway.exchange.relay import CLIENT_LEFT, RequestRelay
from wirefault.gateway.http1.framing import BadBody
from wirefault.gateway.http1.heads import BadHead, RequestHead, find_head
from wirefault.gateway.http1.messages import CONTINUE
from wirefault.gateway.lane import Lane, LaneAttempt, LinkListener

_MAX_QUEUE = 64 * 1024
_CLIENT_LEFT_EARLY = "the client left before its request was complete"
_ATTEMPT_OVER = "the attempt ended before its reply was complete"
_STREAM_CLOSED = "the attempt ended, and with it the stream"
_OUTLIVED = "this connection belongs to an attempt that is over: open a new one"
# Toxiproxy closes its side within milliseconds.
_DRAIN_S = 0.5


class ClientConnection(asyncio.Protocol):
    """Takes a client's requests one by one, has their faults decided, and hands them to its relay.

    The connection's attempt waits until it is over: until the client is gone, and the upstream has all that
    the client sent. After the attempt's end it takes no request.
    """

    client: ClientTransport
    relay: RequestRelay

    def __init__(self, listener: LinkListener) -> None:
        self.listener = listener
        self.membership = _Membership(listener.lane, is_tool=not listener.is_model)
        self.queue = RequestQueue()
        self._delay: FaultDelay | _ToxicsWait | None = None
        self._taking_up = self._left = self._drained = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = ClientTransport(cast(asyncio.Transport, transport))
        self.relay = RequestRelay(self.listener, self.client, self)
        self.listener.lane.connections.add(self)
        self.membership.accept()
        self._end_if_over()

    # events of the client

    def data_received(self, data: bytes) -> None:
        if self.client.closing:
            return
        exchange = self.relay.exchange
        if exchange is None:
            self.queue.add(data, time.perf_counter())
            self._take_up_requests()
        elif not exchange.request_done:
            self._on_body(exchange, data)
        elif self.relay.tunnel:
            exchange.request_bytes += len(data)
            self.relay.upstream.send(data)
        else:
            self.queue.add(data, time.perf_counter())
            self.client.pause(PauseReason.REQUESTS_WAIT, self.queue.is_long)

    def eof_received(self) -> bool:
        """A client that half-closes after a whole request may still want its reply; any other is gone."""
        self.client.half_closed = True
        self._note_client_left()
        self.relay.note_client_eof()
        if self.client.closing or self.relay.delivery.hanging or not self._client_wants_reply():
            if self.relay.exchange is not None:
                self.client.break_off()
            return False
        self.relay.pass_on_eof()
        return True

    def _client_wants_reply(self) -> bool:
        exchange = self.relay.exchange
        if exchange is not None and not exchange.request_done:
            exchange.error = _CLIENT_LEFT_EARLY
        return exchange is not None and exchange.request_done

    def connection_lost(self, error: Exception | None) -> None:
        self.client.lost = True
        self._note_client_left()
        self.client.stop_timer()
        exchange = self.relay.exchange
        if self._delay is not None and exchange is not None and exchange.request_done:
            return  # on a slow network the request would arrive, too
        self._stop_delay()
        self._on_client_gone()

    def _note_client_left(self) -> None:
        exchange = self.relay.exchange
        if exchange is not None and not exchange.left_at:
            exchange.left_at = time.perf_counter()

    def _on_client_gone(self) -> None:
        """End all that the client had begun, except a whole request that is on its way."""
        exchange = self.relay.exchange
        if exchange is not None and exchange.request_done and self.relay.upstream.connecting:
            # without the gateway the server would have had the request already: it still gets it
            self.relay.upstream.close()
            return
        self.relay.give_up(CLIENT_LEFT)
        if exchange is None or exchange.request_done:
            self.relay.upstream.close()
        else:
            self.relay.upstream.drop()
        self.leave()

    def pause_writing(self) -> None:
        self.client.full = True
        self.relay.upstream.throttle()

    def resume_writing(self) -> None:
        self.client.full = False
        self.relay.delivery.resume()

    # calls by the lane and the relay

    def end(self, reason: str) -> None:
        """Close both sides at once; an exchange in progress is recorded with that reason."""
        self._stop_delay()
        self.relay.give_up(reason)
        self.relay.upstream.drop()
        self.client.abort()
        self.leave()

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: release what a fault holds up, close streams and idle connections."""
        if self._has_request_of(attempt):
            if self._delay is not None:
                self._delay.expire()
            if self._has_request_of(attempt) and self.relay.delivery.held_up:
                self.end(_ATTEMPT_OVER)
            elif self._has_request_of(attempt) and self.relay.streams:
                self.end(_STREAM_CLOSED)
        elif self._idle and (self.membership.attempt is attempt or self.listener.is_model):
            self._drain(attempt)

    def cut_off(self, attempt: LaneAttempt) -> None:
        """The attempt stops waiting: end the connection unless a request on it is unanswered."""
        if self._drained and self.membership.attempt is attempt and self.relay.exchange is None:
            self.end(_ATTEMPT_OVER)

    def _end_if_over(self) -> None:
        """End the connection if it has no request and its attempt is over."""
        attempt = self.membership.attempt
        if self._drained:
            if self._idle:
                self.client.close()
        elif attempt is not None and attempt.settling and self._idle:
            self._drain(attempt)

    @property
    def _idle(self) -> bool:
        return self.relay.exchange is None and not self.queue.waiting and not self.client.closing

    def _drain(self, attempt: LaneAttempt) -> None:
        """Half-close towards the client. A request that a toxic still delays is taken, but not answered.

        The attempt waits for the end, so that the client learns of it before it can use the connection again.
        """
        self._drained = True
        self.membership.join(attempt)
        self.client.half_close(_DRAIN_S)

    def _has_request_of(self, attempt: LaneAttempt) -> bool:
        return self.relay.exchange is not None and self.relay.exchange.origin.attempt is attempt

    @property
    def requests_wait(self) -> bool:
        return bool(self.queue.waiting)

    def on_request_finished(self) -> None:
        if self.queue.waiting or self.client.half_closed:
            self._take_up_requests()
        self._end_if_over()

    def on_tunnel(self) -> None:
        if self.queue.waiting:  # bytes that the client sent before its connection became a tunnel
            self.client.pause(PauseReason.REQUESTS_WAIT, False)
            self.data_received(self.queue.take_all())

    def leave(self) -> None:
        """The connection is over: its attempt no longer waits for it."""
        if not self._left:
            self._left = True
            self.listener.lane.connections.discard(self)
            self.membership.leave()

    # requests

    def _take_up_requests(self) -> None:
        """Begin the requests that wait, one after the other."""
        if self._taking_up:
            return
        queue, relay, client = self.queue, self.relay, self.client
        self._taking_up = True
        try:
            while queue.waiting and relay.exchange is None and not client.closing:
                if not self._take_up():
                    break
        finally:
            self._taking_up = False
        if queue.waiting or client.pause_reasons:
            client.pause(PauseReason.REQUESTS_WAIT, queue.is_long)
        if client.half_closed and not client.closing and not self._client_wants_reply():
            client.close()

    def _take_up(self) -> bool:
        """Begin the next request; False if its header block is not whole yet, or is refused."""
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
        exchange = self._new_exchange(head)
        if self.membership.outlived:
            self._refuse(BadHead(_OUTLIVED, 421))
            return False
        data = queue.take_all() if queue.waiting else b""
        if may_meet_fault(exchange):
            ask_faults(exchange)
            if exchange.waiting is not None and exchange.decision is None and head.expects_continue:
                exchange.continue_sent = True
                self.relay.delivery.write(exchange, CONTINUE)
        if exchange.decision is not None and exchange.waiting is not None:
            if data:
                queue.add(data, time.perf_counter())
            self._carry_out_plan(exchange)
        else:
            self._on_body(exchange, data)
        return True

    def _on_head_timeout(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_exchange(self, head: RequestHead) -> Exchange:
        exchange = self.relay.exchange = Exchange(self.listener, head, self.queue.arrived)
        if self.client.tls:
            exchange.tls, self.client.tls = self.client.tls, "kept"
        exchange.identify(self.membership.request_attempt())
        if self._drained:
            exchange.error = CLIENT_LEFT
        return exchange

    def _on_body(self, exchange: Exchange, data: bytes) -> None:
        """Take a part of the body (maybe empty) and forward it, unless faults may act on it."""
        if data:
            try:
                used = exchange.take_body(data)
            except BadBody as error:
                self._refuse(BadHead(str(error)))
                return
            if used < len(data):
                self.queue.add(data[used:], time.perf_counter())
                data = data[:used]
        if exchange.waiting is not None:
            exchange.waiting.append(data)
            if exchange.decision is None and can_be_decided(exchange):
                decide(exchange)
                self._carry_out_plan(exchange)
            return
        if exchange.plan is None or not exchange.plan.answers:
            if exchange.forwarding:
                self.relay.upstream.send(data)
            else:
                self.relay.forward(exchange, data)
        if exchange.request_done:
            self.relay.on_request_done(exchange)

    def _refuse(self, error: BadHead) -> None:
        """Answer something that is not a request, and close."""
        exchange = self.relay.exchange or self._new_exchange(RequestHead("", "", [], len(self.queue.waiting)))
        self.queue.take_all()
        self.relay.refuse(exchange, error)

    # faults, before the request is forwarded

    def _carry_out_plan(self, exchange: Exchange) -> None:
        """Release the request, now or when its link's toxics are as planned for its call."""
        if exchange.waits_for_toxics:
            self._hold_back(exchange, _ToxicsWait(exchange, self._on_toxics_changed))
        else:
            self._delay_or_release(exchange)

    def _on_toxics_changed(self, exchange: Exchange) -> None:
        if self._end_hold(exchange):
            self._delay_or_release(exchange)

    def _delay_or_release(self, exchange: Exchange) -> None:
        seconds = exchange.plan.delay if exchange.plan else 0.0
        if seconds and not exchange.attempt_is_over:
            self._hold_back(exchange, FaultDelay(exchange, seconds, self._on_delay_over))
        else:
            self._release(exchange)

    def _on_delay_over(self, exchange: Exchange) -> None:
        if self._end_hold(exchange):
            self._release(exchange)

    def _hold_back(self, exchange: Exchange, delay: FaultDelay | _ToxicsWait) -> None:
        self._delay = delay
        self.client.pause(PauseReason.FAULT_DELAY, not exchange.request_done)

    def _end_hold(self, exchange: Exchange) -> bool:
        """End the delay; True if the exchange is still in progress."""
        self._delay = None
        self.client.pause(PauseReason.FAULT_DELAY, False)
        return self.relay.exchange is exchange

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.stop()
            self._delay = None

    def _release(self, exchange: Exchange) -> None:
        """Forward the bytes that waited, or drop them if a fault answers."""
        waiting = exchange.take_waiting()
        if not exchange.answered_by_fault:
            self.relay.forward(exchange, waiting)
        if exchange.request_done and not (self.client.lost and exchange.answered_by_fault):
            self.relay.on_request_done(exchange)
        if self.client.lost and self.relay.exchange is exchange:
            self._on_client_gone()


class RequestQueue:
    """The bytes of requests that have not begun yet. Pure."""

    def __init__(self) -> None:
        self.waiting = b""
        self.arrived = 0.0
        """When the first of them came."""

    @property
    def is_long(self) -> bool:
        """Whether the client should stop sending."""
        return len(self.waiting) > _MAX_QUEUE

    def add(self, data: bytes, now: float) -> None:
        if self.waiting:
            self.waiting += data
        else:
            self.waiting, self.arrived = data, now

    def next_head(self) -> RequestHead | None:
        """Take out the next request's head; None if it is not whole yet. Raises ``BadHead``."""
        head, self.waiting = find_head(self.waiting)
        return head

    def take_all(self) -> bytes:
        waiting, self.waiting = self.waiting, b""
        return waiting


class _Membership:
    """Which attempt a connection belongs to, and whether that attempt waits for its end.

    On a tool link that is the current attempt when it is accepted, or else when its first request comes. On
    the model link it belongs to no attempt, since each request names its own.
    """

    def __init__(self, lane: Lane, *, is_tool: bool) -> None:
        self._lane = lane
        self._is_tool = is_tool
        self.attempt: LaneAttempt | None = None
        """The attempt that waits for the connection to ``leave``."""

    @property
    def outlived(self) -> bool:
        """Whether its attempt has ended, so that its requests belong to none."""
        return self._is_tool and self.attempt is not None and self.attempt is not self._lane.attempt

    def accept(self) -> None:
        if self._is_tool:
            self.join(self._lane.attempt)

    def join(self, attempt: LaneAttempt | None) -> None:
        """Let that attempt wait for the connection, unless another one does."""
        if self.attempt is None and attempt is not None:
            self.attempt = attempt
            attempt.opened()

    def request_attempt(self) -> LaneAttempt | None:
        """Return the attempt of a request that begins now, by its connection."""
        if not self._is_tool:
            return self._lane.attempt
        if self.attempt is None:
            self.join(self._lane.attempt)
        return self.attempt

    def leave(self) -> None:
        """The connection is over. Call it once."""
        if self.attempt is not None:
            self.attempt.closed()


class FaultDelay:
    """Delays a request from now on, then calls ``release``. Its plan gets the real delay."""

    def __init__(self, exchange: Exchange, seconds: float, release: Callable[[Exchange], None]) -> None:
        self._exchange = exchange
        self._release = release
        self._since = time.perf_counter()
        for fault in exchange.plan.met_faults if exchange.plan else ():
            if fault.delay:
                fault.mark_acting(self._since)
        self._timer = asyncio.get_running_loop().call_later(seconds, self.expire)

    def expire(self) -> None:
        """End the delay and release the request."""
        self.stop()
        self._release(self._exchange)

    def stop(self) -> None:
        """End the delay without releasing the request."""
        self._timer.cancel()
        if self._exchange.plan is not None:
            self._exchange.plan.mark_delayed(time.perf_counter() - self._since)


class _ToxicsWait:
    """Holds a request until its link's toxics are as planned for its call, then calls ``release``."""

    def __init__(self, exchange: Exchange, release: Callable[[Exchange], None]) -> None:
        self._exchange = exchange
        self._release = release
        self._over = False
        attempt, decision = exchange.origin.attempt, exchange.decision
        assert attempt is not None and decision is not None
        attempt.call_holds.wait(exchange.listener.name, decision.link_call, self.expire)

    def expire(self) -> None:
        """Release the request: the toxics are set, or the attempt is over."""
        if not self._over:
            self._over = True
            self._release(self._exchange)

    def stop(self) -> None:
        """Give up waiting, without releasing the request."""
        self._over = True
