"""A connection after a change of protocol: bytes both ways, and the messages in them if it is a WebSocket."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from wirefault.faults.base import Side
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.client import Client, PauseReason
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.upstream import UpstreamLink
from wirefault.gateway.websocket.session import MessageRecord, WebSocketSession
from wirefault.history.events import SocketMessage

MAX_RECORDED = 1000
"""Messages of one connection in the history; later ones are only counted."""
MAX_TEXT = 500


class Tunnel:
    """Passes the bytes of one exchange's tunnel. ``on_cut(how)``: a fault ends the connection."""

    def __init__(
        self,
        exchange: Exchange,
        reader: MessageReader,
        client: Client,
        upstream: UpstreamLink,
        on_cut: Callable[[Literal["close", "reset"]], None],
    ) -> None:
        self._exchange, self._client, self._upstream = exchange, client, upstream
        self._on_cut = on_cut
        self._recorded = 0
        self._after: Callable[[], None] | None = None
        self.session: WebSocketSession | None = None
        head = reader.message
        candidates = exchange.plan.message_candidates if exchange.plan is not None else []
        if head.header("upgrade").lower() == "websocket" and not head.header("sec-websocket-extensions"):
            self.session = exchange.reply.websocket = WebSocketSession(self, candidates)
        for fault in candidates:
            if self.session is None:
                fault.mark_not_injected("unreadable")

    def take(self, sender: Side, data: bytes) -> None:
        """Take bytes of that side."""
        if self.session is not None:
            self.session.take(sender, data)
        else:
            self.write("server" if sender == "client" else "client", data)

    def hurry(self, sender: Side) -> None:
        """That side is gone: pass on what a fault still holds of it."""
        if self.session is not None:
            self.session.hurry(sender)

    @property
    def behind(self) -> bool:
        """Whether more bytes of the upstream would only pile up here."""
        return self.session is not None and self.session.is_behind("server")

    def wait_for_server(self, then: Callable[[], None]) -> bool:
        """Whether messages of the server still wait; ``then`` is called once none does."""
        if self.session is None or not self.session.waits("server"):
            return False
        self._after = then
        return True

    def end(self) -> None:
        self._after = None
        if self.session is not None:
            self.session.end()

    # ``Ends``

    def write(self, to: Side, data: bytes) -> None:
        if to == "server":
            self._upstream.send(data)
        elif data:
            self._exchange.ended = time.perf_counter()
            self._client.write(data)
            self._exchange.reply.size += len(data)

    def on_queue(self, sender: Side) -> None:
        if self.session is None:
            return
        if sender == "client":
            self._client.pause(PauseReason.FAULT_DELAY, self.session.is_behind("client"))
            return
        self._upstream.throttle()
        if self._after is not None and not self.session.waits("server"):
            then, self._after = self._after, None
            then()

    def cut(self, how: Literal["close", "reset"]) -> None:
        self._on_cut(how)

    def client_is_gone(self) -> bool:
        return self._client.lost or self._client.half_closed

    def record(self, message: MessageRecord) -> None:
        """Write the message into the run's history, without secrets."""
        exchange, run = self._exchange, self._exchange.origin.run
        if run is None or self._recorded >= MAX_RECORDED:
            return
        self._recorded += 1
        text = None
        if message.kind == "text" and (run.keeps_bodies or message.fault):
            redaction = exchange.listener.redaction
            # a secret at the cut must be whole when it is searched for
            start = message.data[: MAX_TEXT * 8].decode("utf-8", "replace")
            text = redaction.body(start)[:MAX_TEXT]
        origin = exchange.origin
        run.record(
            SocketMessage(
                t=message.at,
                episode=origin.episode,
                attempt=origin.attempt_number,
                link=exchange.listener.name,
                call=exchange.call,
                sender=message.sender,
                number=message.number,
                kind=message.kind,
                size=message.size,
                type=exchange.listener.redaction.text(message.type[:100]),
                fate=message.fate,
                fault=message.fault,
                text=text,
            )
        )
