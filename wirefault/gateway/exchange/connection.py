"""One client's connection: its requests one after the other, forwarded or held for faults."""

from __future__ import annotations

import asyncio
import time
from typing import Literal, cast

from wirefault.gateway.exchange.carrier import HTTP
from wirefault.gateway.exchange.client import ClientTransport, PauseReason
from wirefault.gateway.exchange.client_side import ClientSide
from wirefault.gateway.exchange.decision import ask_faults, may_meet_fault
from wirefault.gateway.exchange.exchange import WAITED_HEADER, Exchange
from wirefault.gateway.http1.framing import BadBody
from wirefault.gateway.http1.heads import BadHead, RequestHead, find_head, read_header
from wirefault.gateway.http1.messages import CONTINUE
from wirefault.gateway.lane import LaneAttempt, LinkListener
from wirefault.history.events import TLS_ON_PLAIN, ConnectionUnanswered

_MAX_QUEUE = 64 * 1024
_MAX_WAITED_MS = 3_600_000
_TLS_RECORD = b"\x16"
_CLIENT_LEFT_EARLY = "the client left before its request was complete"
_OUTLIVED = "this connection belongs to an attempt that is over: open a new one"


class ClientConnection(ClientSide, asyncio.Protocol):
    """Takes a client's requests over HTTP one by one. After its attempt's end it takes none."""

    client: ClientTransport

    def __init__(self, listener: LinkListener) -> None:
        super().__init__(listener)
        self.queue = RequestQueue()
        self._taking_up = False
        # until the first request has its time
        self._opened: float | None = None
        self._made = 0.0
        self._received = 0
        self._armed: LaneAttempt | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opened = self._made = time.perf_counter()
        self._armed = self.listener.lane.attempt
        self.join(ClientTransport(cast(asyncio.Transport, transport)), HTTP)

    # events of the client

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self.client.closing:
            return
        exchange = self.relay.exchange
        if exchange is None:
            self.queue.add(data, time.perf_counter())
            self._take_up_requests()
        elif not exchange.request_done:
            self._on_body(exchange, data)
        elif self.relay.tunnel and self.listener.lane.killing:
            pass  # the subject is to die, and this connection with it
        elif self.relay.tunnel:
            exchange.request_bytes += len(data)
            self.relay.take_in_tunnel(data)
        else:
            self.queue.add(data, time.perf_counter())
            self.client.pause(PauseReason.REQUESTS_WAIT, self.queue.is_long)

    def eof_received(self) -> bool:
        """A client that half-closes after a whole request may still want its reply; any other is gone."""
        self.client.half_closed = True
        self.note_client_left()
        self.relay.note_client_eof()
        if self.relay.killing:
            return True  # the kill's end closes it
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
        self.client.stop_timer()
        self._record_if_unanswered(error)
        self.lose_client()

    def _record_if_unanswered(self, error: Exception | None) -> None:
        """Record what shows whether a toxic ended the connection; TLS hides the number of bytes."""
        attempt, waits = self._armed, self._opened is not None or self.relay.exchange is not None
        if attempt is None or not waits or self.client.tls or self.listener.name not in attempt.toxic_links:
            return
        how: Literal["fin", "rst", "open"] = "rst" if error else "fin" if self.client.half_closed else "open"
        ms = (time.perf_counter() - self._made) * 1000
        here = attempt.episode, attempt.number, self.listener.name
        attempt.run.record(ConnectionUnanswered(time.time(), *here, ms, self._received, how))

    def pause_writing(self) -> None:
        self.client.full = True
        self.relay.upstream.throttle()

    def resume_writing(self) -> None:
        self.client.full = False
        self.relay.delivery.resume()

    @property
    def requests_wait(self) -> bool:
        return bool(self.queue.waiting)

    def on_request_finished(self) -> None:
        if self.queue.waiting or self.client.half_closed:
            self._take_up_requests()
        self.end_if_over()

    def on_tunnel(self) -> None:
        if self.queue.waiting:  # bytes that the client sent before its connection became a tunnel
            self.client.pause(PauseReason.REQUESTS_WAIT, False)
            self.data_received(self.queue.take_all())

    # requests

    def _take_up_requests(self) -> None:
        """Begin the requests that wait, one after the other."""
        if self._taking_up:
            return
        queue, relay, client = self.queue, self.relay, self.client
        self._taking_up = True
        try:
            killing = self.listener.lane.killing
            while queue.waiting and relay.exchange is None and not client.closing and not killing:
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
            self._refuse(BadHead(TLS_ON_PLAIN) if queue.waiting[:1] == _TLS_RECORD else error)
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
            self.carry_out_plan(exchange)
        elif data:
            self._on_body(exchange, data)
        else:
            self.take_body(exchange, b"")
        return True

    def _on_head_timeout(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_exchange(self, head: RequestHead) -> Exchange:
        exchange = self.new_exchange(head, self.queue.arrived)
        exchange.opened, self._opened = self._opened, None
        if self.listener.is_function:
            exchange.opened = _call_began(exchange)
        if self.client.tls:
            exchange.tls, self.client.tls = self.client.tls, "kept"
        return exchange

    def _on_body(self, exchange: Exchange, data: bytes) -> None:
        """Take a part of the body and forward it, unless faults may act on it."""
        try:
            used = exchange.take_body(data)
        except BadBody as error:
            self._refuse(BadHead(str(error)))
            return
        if used < len(data):
            self.queue.add(data[used:], time.perf_counter())
            data = data[:used]
        self.take_body(exchange, data)

    def _refuse(self, error: BadHead) -> None:
        """Answer something that is not a request, and close."""
        exchange = self.relay.exchange or self._new_exchange(RequestHead("", "", [], len(self.queue.waiting)))
        self.queue.take_all()
        self.relay.refuse(exchange, error)


def _call_began(exchange: Exchange) -> float | None:
    """When the call of a function began in its process, which may have waited for its connection."""
    try:
        waited_ms = float(read_header(exchange.head, WAITED_HEADER))
    except ValueError:
        return None
    return exchange.began - waited_ms / 1000 if 0 <= waited_ms < _MAX_WAITED_MS else None


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
