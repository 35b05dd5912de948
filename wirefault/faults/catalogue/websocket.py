"""Faults of WebSocket messages, such as the events of realtime APIs: cut, delayed, lost, error events."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT
from wirefault.dialects.realtime import REALTIME, event_of, type_of
from wirefault.faults.base import Act, Fault, MessageAct, Miss, Side, SocketMessage, Try
from wirefault.faults.counts import CountRange, within


class MessageFault(Fault):
    """Acts on chosen messages of the WebSocket connections that requests open."""

    family = "websocket"

    sender: Side = Field("server", description="whose messages are chosen")
    type: str = Field("", description="only messages of JSON with this `type`; * matches anything")
    nth: CountRange | None = Field(
        None, description="only the nth of these messages in the connection: 3, or a range: 2-4, 2-"
    )
    probability: float = Field(1.0, ge=0, le=1, description="probability, drawn for each of these messages")
    at_most: int | None = Field(None, ge=1, description="at most n messages in the connection")

    def act(self, tried: Try) -> Act | Miss:
        if tried.request.header("upgrade").lower() != "websocket":
            return Miss("not_a_websocket")
        return self.on_connection(tried)

    def on_connection(self, tried: Try) -> Act | Miss:
        """The effect on a request that opens a connection."""
        return Act(messages=partial(_Editor, self, tried.chance))

    def on_message(self, message: SocketMessage, chance: Callable[[str], float]) -> MessageAct:
        """What happens to a chosen message."""
        raise NotImplementedError


class _Editor:
    """Implements ``MessageEditor``: counts the messages of one connection, and chooses among them."""

    def __init__(self, fault: MessageFault, chance: Callable[[str], float]) -> None:
        self._fault, self._chance = fault, chance
        self._eligible = self._met = 0

    def message(self, message: SocketMessage) -> MessageAct | None:
        fault = self._fault
        if message.sender != fault.sender or not self._has_type(message):
            return None
        self._eligible += 1
        if not within(fault.nth, self._eligible) or (fault.at_most or self._met + 1) <= self._met:
            return None
        if fault.probability < 1:
            chance = self._chance(f"message {message.sender} {message.number}")
            if chance >= fault.probability:
                return None
        self._met += 1
        return fault.on_message(message, self._chance)

    def _has_type(self, message: SocketMessage) -> bool:
        pattern = self._fault.type
        return not pattern or fnmatchcase(type_of(event_of(message.data)), pattern)


class WsCut(MessageFault):
    """Cut a WebSocket connection at a message: before it, inside its bytes, or after it.

    Both sides lose the connection. Without `code` no close frame comes, which clients report as 1006; with it
    the client gets a close frame first, as from a server that ends the session. Behind a proxy that closes
    connections in order (such as Toxiproxy) `reset` looks like `close`.
    """

    name = "ws_cut"
    can_cause = CLOSED

    at: Literal["before", "inside", "after"] = Field("after", description="where, seen from the message")
    ending: Literal["close", "reset"] = Field("close", description="how the connection ends")
    code: int | None = Field(
        None, ge=1000, le=4999, description="code of a close frame that the client gets; default: none"
    )

    def on_message(self, message: SocketMessage, chance: Callable[[str], float]) -> MessageAct:
        share = {"before": 0.0, "inside": 0.5, "after": 1.0}[self.at]
        return MessageAct(part=share, ending=self.ending, close_code=self.code if share != 0.5 else None)


class WsDelay(MessageFault):
    """Delay messages of a WebSocket connection; the later ones of that side wait behind them.

    Pings and pongs still pass, so the connection looks alive.
    """

    name = "ws_delay"
    can_cause = TIMEOUT

    seconds: float = Field(2.0, gt=0, le=3600, description="seconds of each delay")

    def on_message(self, message: SocketMessage, chance: Callable[[str], float]) -> MessageAct:
        return MessageAct(delay=self.seconds)


class WsDrop(MessageFault):
    """Lose messages of a WebSocket connection; the others pass, and neither side gets an error.

    Without `nth`, `type` or `at_most` the side falls silent while the connection stays open.
    """

    name = "ws_drop"
    can_cause = TIMEOUT

    def on_message(self, message: SocketMessage, chance: Callable[[str], float]) -> MessageAct:
        return MessageAct(drop=True)


_ErrorKind = Literal["server_error", "rate_limit", "quota", "overloaded", "invalid_event", "session_expired"]


class WsError(MessageFault):
    """Send a realtime client an error event, after a message or in its place.

    The event has the Realtime API's form, `{"type": "error", "error": {...}}`. With `sender: client` it names
    the client's event as its cause; with `place: instead` the server never gets that event. Most errors leave
    a session open; `closes` ends it, as the API does with an expired one.
    """

    name = "ws_error"

    error: _ErrorKind = Field("server_error", description="which error")
    place: Literal["after", "instead"] = Field("after", description="after the message, or instead of it")
    closes: bool = Field(False, description="whether the connection is closed after it, with code 1000")

    def on_connection(self, tried: Try) -> Act | Miss:
        if tried.dialect != REALTIME.name:
            return Miss("not_in_dialect")
        return super().on_connection(tried)

    def on_message(self, message: SocketMessage, chance: Callable[[str], float]) -> MessageAct:
        form = REALTIME.errors[self.error]
        cause = str(event_of(message.data).get("event_id") or "") if message.sender == "client" else ""
        number = int(chance(f"event {message.sender} {message.number}") * 2**48)
        event = REALTIME.error_event(
            form.type or "server_error",
            form.code,
            form.message.format(model="the model"),
            id=f"event_{number:012x}",
            cause=cause,
        )
        ending: Literal["keep", "close"] = "close" if self.closes else "keep"
        code = 1000 if self.closes else None
        return MessageAct(drop=self.place == "instead", event=event, ending=ending, close_code=code)


WEBSOCKET_FAULTS: tuple[type[Fault], ...] = (WsCut, WsDelay, WsDrop, WsError)
