"""One WebSocket connection between a client and an upstream: records its messages, and carries out faults.

Without faults the bytes pass as they come. With one, a message passes once it is whole; pings and pongs pass
at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from wirefault.dialects.realtime import event_of, type_of
from wirefault.faults.base import MessageAct, MessageEditor, Side, SocketMessage
from wirefault.faults.plan import MetFault
from wirefault.gateway.websocket.messages import (
    MessageReader,
    Unit,
    close_code,
    close_frame,
    text_frame,
)

_MAX_QUEUED = 1 << 20
MAX_NAMED = 20
SIDES: tuple[Side, Side] = ("client", "server")

Fate = Literal["passed", "delayed", "dropped", "replaced", "cut", "injected"]


class MessageRecord(NamedTuple):
    """A message for the history. ``sender`` of one that the gateway ``injected``: the server."""

    at: float
    sender: Side
    number: int
    kind: str
    size: int
    type: str
    data: bytes
    fate: Fate
    fault: str


class Ends(Protocol):
    """The two ends of the connection."""

    def write(self, to: Side, data: bytes) -> None:
        """Send that side these bytes."""

    def on_queue(self, sender: Side) -> None:
        """The queue of that side's messages has grown or shrunk."""

    def cut(self, how: Literal["close", "reset"]) -> None:
        """End the connection on both sides."""

    def client_is_gone(self) -> bool:
        """Whether bytes for the client are discarded."""

    def record(self, message: MessageRecord) -> None:
        """Write the message into the history."""


@dataclass
class _Wait:
    """Delays the messages behind it."""

    seconds: float
    fault: MetFault


@dataclass
class _Cut:
    how: Literal["close", "reset"]
    fault: MetFault


_Step = bytes | _Wait | _Cut


class WebSocketSession:
    """The messages of one connection after its handshake."""

    def __init__(self, ends: Ends, candidates: list[MetFault]) -> None:
        self._ends = ends
        self._editors: list[tuple[MetFault, MessageEditor]] = []
        for fault in candidates:
            editor = fault.guarded(fault.act.messages) if fault.act.messages is not None else None
            if editor is not None:
                self._editors.append((fault, editor))
        self._flows = {side: _Flow(side, self) for side in SIDES}
        self.close_codes: dict[Side, int] = {}
        """Of the close frames that each side sent."""
        self.over = False

    @property
    def armed(self) -> bool:
        return bool(self._editors)

    @property
    def ends(self) -> Ends:
        return self._ends

    def count(self, sender: Side) -> int:
        """How many messages that side sent."""
        return self._flows[sender].count

    @property
    def unreadable(self) -> str:
        """Why the bytes of a side could not be read as messages; empty if they could."""
        return next((flow.error for flow in self._flows.values() if flow.error), "")

    def take(self, sender: Side, data: bytes) -> None:
        """Take bytes of that side."""
        if not self.over and data:
            self._flows[sender].take(data)

    def is_behind(self, sender: Side) -> bool:
        """Whether that side should send no more for now."""
        return self._flows[sender].queued > _MAX_QUEUED

    def waits(self, sender: Side) -> bool:
        """Whether messages of that side are still to be passed on."""
        return not self.over and self._flows[sender].waits

    def hurry(self, sender: Side) -> None:
        """Pass on all that waits, since the side is gone."""
        if not self.over:
            self._flows[sender].hurry()

    def end(self) -> None:
        """The connection is over: nothing more is passed on."""
        if self.over:
            return
        self.over = True
        for flow in self._flows.values():
            flow.stop()
        for fault, _ in self._editors:
            fault.mark_not_injected("no_such_message" if fault.acted_at is None else "cut_short")
            if fault.injected:
                fault.evidence["client_then"] = self._client_since(fault)

    def _client_since(self, fault: MetFault) -> dict[str, object]:
        """What the client did after the fault began to act."""
        flow = self._flows["client"]
        then: dict[str, object] = {
            "messages": sum(at > (fault.acted_at or 0.0) for at in flow.arrivals),
        }
        if "client" in self.close_codes:
            then["close_code"] = self.close_codes["client"]
        return then

    def decide(self, message: SocketMessage) -> tuple[MetFault, MessageAct] | None:
        """Return the first fault that acts on the message."""
        for fault, editor in self._editors:
            act = fault.guarded(editor.message, message)
            if act is not None:
                return fault, act
        return None

    def inject(self, event: bytes, fault: MetFault) -> None:
        """Send the client a message of a fault, between those of the server."""
        flow = self._flows["server"]
        flow.add(text_frame(event))
        self._ends.record(_record("server", 0, "text", event, "injected", fault.id))

    def cut_after(self, flow: _Flow | None, cut: _Cut, code: int | None) -> None:
        """End the connection behind what ``flow`` has still to pass on; None: behind the server's messages.

        ``code``: of a close frame for the client before that.
        """
        server = self._flows["server"]
        if code is not None:
            server.add(close_frame(code, ""))
        (server if flow is None or code is not None else flow).add(cut)

    def cut(self, how: Literal["close", "reset"]) -> None:
        """End the connection on both sides."""
        for flow in self._flows.values():
            flow.stop()
        self._ends.cut(how)


def _record(sender: Side, number: int, kind: str, data: bytes, fate: Fate, fault: str = "") -> MessageRecord:
    type_ = type_of(event_of(data)) if kind == "text" else ""
    return MessageRecord(time.time(), sender, number, kind, len(data), type_, data, fate, fault)


class _Flow:
    """The messages of one side on their way to the other."""

    def __init__(self, sender: Side, session: WebSocketSession) -> None:
        self._sender: Side = sender
        self._to: Side = "server" if sender == "client" else "client"
        self._session = session
        self._reader = MessageReader(sender)
        self.count = 0
        self.queued = 0
        self.arrivals: deque[float] = deque(maxlen=10_000)
        self._steps: deque[_Step] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._waiting: _Wait | None = None
        self._running = self._stopped = self._hurried = False

    @property
    def error(self) -> str:
        return self._reader.error

    @property
    def waits(self) -> bool:
        return bool(self._steps) or self._timer is not None

    def take(self, data: bytes) -> None:
        if self._stopped:
            return
        passes = not self._session.armed
        if passes or self.error:
            self.add(data)
        if self.error:
            return
        for unit in self._reader.feed(data):
            if self._stopped:
                return
            self._take_unit(unit, passes=passes)
        if self.error and not passes and not self._stopped:
            self.add(self._reader.take_rest())

    def _take_unit(self, unit: Unit, *, passes: bool) -> None:
        if unit.kind is None:
            if not passes:
                self._session.ends.write(self._to, unit.raw)
            return
        if unit.kind == "close":
            code = close_code(unit.data)
            self._session.close_codes.setdefault(self._sender, code)
            if not passes:
                self.add(unit.raw)
            return
        self.count += 1
        self.arrivals.append(time.perf_counter())
        message = SocketMessage(self._sender, self.count, unit.kind, unit.data)
        decided = None if passes else self._session.decide(message)
        if decided is None:
            if not passes:
                self.add(unit.raw)
            self._record(message, "passed")
        else:
            self._carry_out(unit, message, *decided)

    def _carry_out(self, unit: Unit, message: SocketMessage, fault: MetFault, act: MessageAct) -> None:
        session = self._session
        if session.ends.client_is_gone():
            fault.mark_not_injected("cut_short")
            self.add(unit.raw)
            self._record(message, "passed")
            return
        fault.mark_acting(time.perf_counter())
        self._note(fault, message)
        if act.delay:
            self._record(message, "delayed", fault.id)
            self.add(_Wait(act.delay, fault))
            self.add(unit.raw)
            return
        cut = act.ending != "keep"
        if not cut or act.event:
            fault.mark_injected()
        fate: Fate = "dropped" if act.drop else "cut" if cut and act.part < 1 else "passed"
        self._record(message, "replaced" if act.drop and act.event else fate, fault.id)
        if not act.drop and act.part:
            self.add(unit.raw[: max(1, int(len(unit.raw) * act.part))])
        if act.event:
            session.inject(act.event, fault)
        if act.ending != "keep":
            self._session.cut_after(self if not act.event else None, _Cut(act.ending, fault), act.close_code)

    def _note(self, fault: MetFault, message: SocketMessage) -> None:
        """Name the message in the fault's evidence."""
        named = fault.evidence.setdefault("messages", [])
        fault.evidence["count"] = fault.evidence.get("count", 0) + 1
        if len(named) < MAX_NAMED:
            type_ = type_of(event_of(message.data))
            named.append({"sender": message.sender, "number": message.number, "type": type_[:100]})

    def _record(self, message: SocketMessage, fate: Fate, fault: str = "") -> None:
        record = _record(self._sender, message.number, message.kind, message.data, fate, fault)
        self._session.ends.record(record)

    def add(self, step: _Step) -> None:
        self._steps.append(step)
        if isinstance(step, bytes):
            self.queued += len(step)
        self._run()

    def _run(self) -> None:
        if self._running:
            return
        self._running = True
        while self._steps and not self._stopped and self._timer is None:
            self._do(self._steps.popleft())
        self._running = False
        self._session.ends.on_queue(self._sender)

    def _do(self, step: _Step) -> None:
        if isinstance(step, bytes):
            self.queued -= len(step)
            self._session.ends.write(self._to, step)
        elif isinstance(step, _Cut):
            step.fault.mark_injected()
            self._session.cut(step.how)
        elif not self._hurried:
            self._since = time.perf_counter()
            self._waiting = step
            self._timer = asyncio.get_running_loop().call_later(step.seconds, self._on_waited)

    def _on_waited(self) -> None:
        self._end_wait()
        self._run()

    def _end_wait(self) -> None:
        if self._timer is not None and self._waiting is not None:
            self._timer.cancel()
            self._timer = None
            self._waiting.fault.mark_injected()
            self._waiting.fault.delay_ms += (time.perf_counter() - self._since) * 1000

    def hurry(self) -> None:
        self._hurried = True
        self._end_wait()
        self._run()

    def stop(self) -> None:
        self._end_wait()
        self._stopped = True
        self._steps.clear()
