"""One client's side of a link: the attempt of its requests, the faults that delay them, and its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from wirefault.gateway.exchange.carrier import Carrier
from wirefault.gateway.exchange.client import Client, PauseReason
from wirefault.gateway.exchange.decision import can_be_decided, decide
from wirefault.gateway.exchange.episode_state import note_client_gone
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.relay import CLIENT_LEFT, SUBJECT_KILLED, RequestRelay
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.lane import Lane, LaneAttempt, LinkListener

_ATTEMPT_OVER = "the attempt ended before its reply was complete"
_STREAM_CLOSED = "the attempt ended, and with it the stream"
# Toxiproxy closes its side within milliseconds.
_DRAIN_S = 0.5


class ClientSide:
    """Decides the faults of a client's requests, and passes the requests to its relay.

    A subclass reads the requests from the client, over HTTP or as lines: it makes a new exchange for each and
    passes its body to ``take_body``. The client's attempt waits until the client has left, and the upstream
    has all that the client sent.
    """

    client: Client
    relay: RequestRelay

    def __init__(self, listener: LinkListener) -> None:
        self.listener = listener
        self.membership = Membership(listener.lane, is_tool=not listener.is_model)
        self._delay: FaultDelay | _ToxicsWait | None = None
        self._left = self._drained = False

    def join(self, client: Client, carrier: Carrier) -> None:
        """The client has connected."""
        self.client = client
        self.relay = RequestRelay(self.listener, client, self, carrier)
        self.listener.lane.connections.add(self)
        self.membership.accept()
        self.end_if_over()

    def lose_client(self) -> None:
        """The client has left: end all that it began, except a whole request that is on its way."""
        self.note_client_left()
        exchange = self.relay.exchange
        if self.relay.killing:
            return  # the kill's end records it
        if self._delay is not None and exchange is not None and exchange.request_done:
            return  # on a slow network the request would arrive, too
        self._stop_delay()
        self._on_client_gone()

    def note_client_left(self) -> None:
        exchange = self.relay.exchange
        if exchange is not None and not exchange.left_at:
            exchange.left_at = time.perf_counter()
            is_changed = self.relay.delivery.writer is not None
            note_client_gone(exchange, None if is_changed else self.relay.delivery.reader)

    def _on_client_gone(self) -> None:
        exchange = self.relay.exchange
        if exchange is not None and exchange.request_done and self.relay.upstream.connecting:
            # without the gateway the server would already have the request: it still gets it
            self.relay.upstream.close()
            return
        self.relay.give_up(CLIENT_LEFT)
        if exchange is None or exchange.request_done:
            self.relay.upstream.close()
        else:
            self.relay.upstream.drop()
        self.leave()

    # calls by the lane and the relay

    def end(self, reason: str) -> None:
        """Close both sides at once; an exchange in progress is recorded with that reason."""
        self._stop_delay()
        self.relay.give_up(reason)
        self.relay.upstream.drop()
        self.client.abort()
        self.leave()

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: release requests that a fault delays, close streams and idle connections."""
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

    def bury(self) -> None:
        """Its client was killed: end it, except a request that its upstream has.

        In a tunnel, messages that were sent before the kill are on their way, and no more of them pass.
        """
        exchange = self.relay.exchange
        if exchange is not None and self.relay.tunnel:
            self.relay.give_up(SUBJECT_KILLED)
            self.relay.upstream.close()
            self.client.abort()
            self.leave()
            return
        if exchange is None or self.relay.killing or not exchange.forwarded:
            self.end(SUBJECT_KILLED)

    def end_if_over(self) -> None:
        """End the connection if it has no request and its attempt is over."""
        attempt = self.membership.attempt
        if self._drained:
            if self._idle:
                self.client.close()
        elif attempt is not None and attempt.settling and self._idle:
            self._drain(attempt)

    @property
    def _idle(self) -> bool:
        return self.relay.exchange is None and not self.requests_wait and not self.client.closing

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
        """Whether bytes of later requests wait behind this one."""
        return False

    def on_request_finished(self) -> None:
        self.end_if_over()

    def on_tunnel(self) -> None:
        """Only HTTP has tunnels."""

    def hand_over(self) -> Membership:
        """Leave the client, which has no request yet, to another owner; return whose it is."""
        self._left = True
        self.listener.lane.connections.discard(self)
        return self.membership

    def leave(self) -> None:
        """The connection is over: its attempt no longer waits for it."""
        if not self._left:
            self._left = True
            self.listener.lane.connections.discard(self)
            self.membership.leave()

    # requests

    def new_exchange(self, head: RequestHead, began: float) -> Exchange:
        exchange = self.relay.exchange = Exchange(self.listener, head, began)
        exchange.identify(self.membership.request_attempt())
        if self._drained:
            exchange.error = CLIENT_LEFT
        return exchange

    def take_body(self, exchange: Exchange, data: bytes) -> None:
        """Forward a part of the body (maybe empty), which is counted, unless faults may act on it."""
        if exchange.waiting is not None:
            exchange.waiting.append(data)
            if exchange.decision is None and can_be_decided(exchange):
                decide(exchange)
                self.carry_out_plan(exchange)
            return
        if exchange.plan is None or not exchange.plan.answers:
            if exchange.forwarding:
                self.relay.upstream.send(data)
            else:
                self.relay.forward(exchange, data)
        if exchange.request_done:
            self.relay.on_request_done(exchange)

    # faults, before the request is forwarded

    def carry_out_plan(self, exchange: Exchange) -> None:
        """Release the request, now or when its link's toxics are as planned for its call."""
        if exchange.decision is not None and exchange.decision.waits_for_toxics:
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


class Membership:
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
