"""Faults of the model's event stream: cut, hanging, early end, slow, duplicate and corrupt events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from wirefault.core.caller_errors import CLOSED, NOTHING, TIMEOUT, ErrorKind
from wirefault.dialects.base import (
    TOKENS,
    EventKind,
    ModelDialect,
    NotInDialect,
    before_finish,
    ping_of,
)
from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Step, data_of, value_of, with_data
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.base import (
    HANG_LIMIT_S,
    Act,
    Changed,
    Fault,
    HangLimit,
    Miss,
    Pings,
    Try,
    WhyNot,
    evidence_text,
)
from wirefault.faults.catalogue.errors import error_event_for

F = TypeVar("F", bound="StreamFault")


class Editor(Generic[F]):
    """Changes one stream. ``seen`` counts its events so far, ``tokens`` those that carry tokens."""

    def __init__(self, fault: F, dialect: ModelDialect, tried: Try) -> None:
        self.fault = fault
        self.dialect = dialect
        self.tried = tried
        self.ending: Ending = "keep"
        self.why_not: WhyNot | None = "nothing_to_change"
        self.evidence: dict[str, Any] = {}
        self.seen = 0
        self.tokens = 0

    def event(self, data: bytes) -> Sequence[Step]:
        kind = self.dialect.kind_of(data)
        self.seen += 1
        self.tokens += kind in TOKENS
        return self.edit(data, kind)

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        """The replacement of the event, which is already counted."""
        raise NotImplementedError

    def end(self) -> Sequence[Step]:
        return ()

    def changed(self, **evidence: Any) -> None:
        """Note that the stream is no longer what it was."""
        self.why_not = None
        self.evidence |= evidence


class StreamFault(Fault):
    """Edits event streams as they pass. Replies that are not event streams pass."""

    family = "model"
    where = "model"
    editor: ClassVar[type[Editor[Any]]]

    def act(self, tried: Try) -> Act | Miss:
        dialect = MODEL_DIALECTS.get(tried.dialect)
        if dialect is None:
            return Miss("unreadable")
        return Act(events=partial(self.editor, self, dialect, tried))


_Place = Literal["events", "arguments", "between_calls", "finish"]
_PLACES = (
    "after a number of events, inside a tool call's arguments, before the second tool call, or before the "
    "event with the finish reason"
)
_MAX_MS = 600_000
_MAX_PINGS = 10_000


class _StopEditor(Editor["_Stop"]):
    stopped = False
    sent = 0
    calls = 0

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        last = None if self.stopped else self._last(data, kind)
        if last is not None:
            self.stopped = True
            self.ending = self.fault.how
            self.changed(at=self.fault.at, events=self.seen - 1, bytes=self.sent + len(last))
        elif not self.stopped:
            self.sent += len(data)
            last = data
        if not last and self.fault.lets_pass(kind):
            last = data
        return (last,) if last else ()

    def _last(self, data: bytes, kind: EventKind) -> bytes | None:
        """The part of the event to send if the stream stops here; None if it continues."""
        at = self.fault.at
        if at == "events":
            return b"" if self.seen > self.fault.after else None
        if at == "finish":
            return before_finish(self.dialect, data, kind)
        if at == "arguments":
            arguments = self.dialect.arguments_in(data)
            if len(arguments) < 2:
                return None
            return self.dialect.with_arguments(data, arguments[: len(arguments) // 2])
        before, self.calls = self.calls, self.calls + self.dialect.calls_begun(data)
        if self.calls < 2 or self.calls == before:
            return None
        return b"" if before else self.dialect.with_arguments(data, self.dialect.arguments_in(data))


class _Stop(StreamFault):
    """Stops the stream at a given place."""

    editor = _StopEditor

    at: _Place = Field("events", description=_PLACES)
    after: int = Field(3, ge=0, description="number of events that are sent (events)")

    @property
    def how(self) -> Ending:
        """The connection's ending. With ``keep`` the rest of the stream is read and discarded."""
        return "keep"

    def lets_pass(self, kind: EventKind) -> bool:
        """Whether an event of that kind is sent even after the stop."""
        return False


PingEvery = Annotated[
    float | None,
    Field(ge=0.01, le=600, description="seconds between pings in the stalled stream; default: none"),
]


def _with_pings(act: Act | Miss, tried: Try, every_s: float | None) -> Act | Miss:
    """The act with pings while the stream stalls; a miss in a dialect without them."""
    if every_s is None or isinstance(act, Miss):
        return act
    event = ping_of(MODEL_DIALECTS[tried.dialect])
    return replace(act, pings=Pings(every_s, event)) if event else Miss("not_in_dialect")


class StreamCut(_Stop):
    """Break the stream's connection: after some events, inside a tool call, or before the end.

    The last chunk of the body never comes, and a careful client reports an incomplete transfer. Clients do
    not retry, since part of the answer has already been passed on. Behind a proxy that closes connections in
    order (such as Toxiproxy) ``reset`` looks like ``close``.
    """

    name = "stream_cut"
    can_cause = CLOSED

    ending: Literal["close", "reset"] = Field("close", description="how the connection ends")

    @property
    def how(self) -> Ending:
        return self.ending


class StreamHang(_Stop):
    """Stop the stream and keep its connection open until the client leaves, or for 65 s.

    A client's read timeout ends this. With ``ping_every`` it never fires, since something keeps coming: a
    comment, or Anthropic's ``ping``; only a limit for the whole reply helps. Some clients cannot read
    comments. Ollama's and Bedrock's streams have no pings: not in these dialects. Of a client that still
    waits after 65 s (``limit``), the gateway closes the connection.
    """

    name = "stream_hang"
    can_cause = TIMEOUT | CLOSED | {"bad_reply"}

    limit: HangLimit = HANG_LIMIT_S
    ping_every: PingEvery = None

    def act(self, tried: Try) -> Act | Miss:
        return _with_pings(super().act(tried), tried, self.ping_every)

    @property
    def hang_s(self) -> float:
        return self.limit

    @property
    def causes(self) -> frozenset[ErrorKind]:
        """Some clients cannot read comments."""
        unreadable: frozenset[ErrorKind] = frozenset({"bad_reply"}) if self.ping_every else NOTHING
        return (TIMEOUT | CLOSED if self.limit else TIMEOUT) | unreadable

    @property
    def how(self) -> Ending:
        return "hang"


class EarlyEnd(_Stop):
    """End the stream cleanly, without a finish reason.

    By default all content is sent, and only the events from the finish reason on are missing; ``at`` and
    ``after`` end it earlier. Clients take the received part for the whole answer. Gemini's streams have no
    final event: there ``terminator`` has no effect.
    """

    name = "early_end"

    at: _Place = Field("finish", description=_PLACES)
    terminator: bool = Field(
        False,
        description="still send the final event of a stream, unless it has the finish reason",
    )

    def lets_pass(self, kind: EventKind) -> bool:
        return self.terminator and kind == "end"


class _ErrorEditor(_StopEditor):
    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        before, steps = self.stopped, super().edit(data, kind)
        if before or not self.stopped:
            return steps
        fault: _Stop = self.fault
        assert isinstance(fault, StreamError)
        if steps and isinstance(steps[0], bytes) and not isinstance(value_of(steps[0]), dict):
            steps = ()  # an event that broke off: no other could follow it
        error = error_event_for(self.tried, fault.error, number=self.seen - 1 + len(steps))
        self.changed(error=evidence_text(data_of(error)))
        return (*steps, error)


class StreamError(_Stop):
    """Report an error inside a stream that began with status 200, and end the stream.

    The error has the form of the API: an event with an ``error`` object in chat completions and from Gemini,
    an event of the type ``error`` from Anthropic and in the Responses API, a line from Ollama, an exception
    in Bedrock's event stream. Clients do not retry: the status was 200, and part of the answer has already
    been passed on. A client that skips events that it does not know takes that part for the whole answer.
    """

    name = "stream_error"
    can_cause = frozenset({"bad_reply"})
    editor = _ErrorEditor

    error: Literal["overloaded", "server_error", "rate_limit"] = Field("overloaded", description="the error")

    def act(self, tried: Try) -> Act | Miss:
        act = super().act(tried)
        if isinstance(act, Act):
            try:
                error_event_for(tried, self.error)
            except NotInDialect:
                return Miss("not_in_dialect")
        return act


class _FirstEditor(Editor["SlowFirstToken"]):
    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        if kind not in TOKENS or self.why_not is None:
            return (data,)
        self.changed(delay_ms=self.fault.ms, event=self.seen)
        return (*self._stall(self.fault.ms / 1000), data)

    def _stall(self, seconds: float) -> Sequence[Step]:
        """The wait, with the pings in it."""
        every_s = self.fault.ping_every
        if every_s is None:
            return (seconds,)
        count = int(seconds / every_s)
        self.changed(pings=count)
        return (*(every_s, ping_of(self.dialect)) * count, seconds - count * every_s)


class SlowFirstToken(StreamFault):
    """Delay the first token; a reply that is not a stream is delayed as a whole.

    The stream's first events, which have no token, are sent at once: the time to the first byte is normal.
    With ``ping_every`` no read timeout fires, since comments keep coming, or Anthropic's ``ping``; Ollama's
    and Bedrock's streams have none.
    """

    name = "slow_first_token"
    editor = _FirstEditor
    can_cause = TIMEOUT | {"bad_reply"}

    ms: int = Field(2000, ge=1, le=_MAX_MS, description="milliseconds")
    ping_every: PingEvery = None

    @model_validator(mode="after")
    def _bounded_pings(self) -> SlowFirstToken:
        if self.ping_every is not None and self.ms / 1000 / self.ping_every > _MAX_PINGS:
            raise ValueError(
                f"{self.ms} ms with a ping every {self.ping_every:g} s are more than {_MAX_PINGS} pings:"
                " raise ping_every"
            )
        return self

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.ping_every else TIMEOUT

    def act(self, tried: Try) -> Act | Miss:
        act = _with_pings(super().act(tried), tried, self.ping_every)
        return act if isinstance(act, Miss) else replace(act, reply=self._late)

    def _late(self, reply: Reply) -> Changed:
        late = ReplyInPieces(reply, (reply.body,), "keep", len(reply.body), self.ms / 1000)
        return Changed(late, {"delay_ms": self.ms})


class _SlowEditor(Editor["SlowTokens"]):
    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        if kind not in TOKENS:
            return (data,)
        wait = self.fault.ms + self.fault.jitter_ms * self.tried.chance(f"token-{self.tokens}")
        self.changed(delay_ms=self.evidence.get("delay_ms", 0) + wait, events=self.tokens)
        return (wait / 1000, data)


class SlowTokens(StreamFault):
    """Delay every token of the stream.

    No single wait is long, so a client's read timeout does not fire.
    """

    name = "slow_tokens"
    editor = _SlowEditor
    can_cause = TIMEOUT

    ms: int = Field(100, ge=1, le=_MAX_MS, description="milliseconds before each event with a token")
    jitter_ms: int = Field(0, ge=0, le=_MAX_MS, description="maximum of a random addition, in milliseconds")


class _Nth(StreamFault):
    """Changes one of the events with a piece of the answer."""

    nth: int = Field(1, ge=1, description="number of the event, among those with text or tool call arguments")

    def instead(self, data: bytes) -> bytes:
        """The replacement of the event."""
        raise NotImplementedError


class _NthEditor(Editor[_Nth]):
    pieces = 0

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        has_piece = kind == "text" or bool(self.dialect.arguments_in(data))
        self.pieces += has_piece
        if not has_piece or self.pieces != self.fault.nth:
            return (data,)
        sent = self.fault.instead(data)
        self.changed(event=self.seen, original=evidence_text(data), changed=evidence_text(sent))
        return (sent,)


class DuplicateEvent(_Nth):
    """Send one event of the stream twice.

    A client that joins the pieces, as most do, gets a piece of the text or of a tool call's arguments twice;
    the arguments are then invalid JSON. Nothing reports it. The last event of OpenAI's Responses API repeats
    the whole reply: clients that use it are not affected.
    """

    name = "duplicate_event"
    editor = _NthEditor

    def instead(self, data: bytes) -> bytes:
        return data + data


class CorruptEvent(_Nth):
    """Corrupt one event of the stream.

    Its JSON is cut in half, replaced by words, or contains invalid UTF-8; or its data is JSON of an
    unexpected shape.
    """

    name = "corrupt_event"
    can_cause = frozenset({"bad_reply"})
    editor = _NthEditor

    kind: Literal["cut", "words", "bytes", "shape"] = Field("cut", description="the damage")

    def instead(self, data: bytes) -> bytes:
        payload = data_of(data)
        half = len(payload) // 2
        damaged = {
            "cut": payload[:half],
            "words": b"upstream connect error",
            "bytes": payload[:half] + b"\xff" + payload[half:],
            "shape": b"[]",
        }
        return with_data(data, damaged[self.kind])


class _SwapEditor(Editor["SwapEvents"]):
    pieces = 0
    waiting: bytes | None = None

    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        if self.waiting is not None:
            late, self.waiting = self.waiting, None
            if late != data:
                self.changed(event=self.seen - 1, original=evidence_text(late), changed=evidence_text(data))
            return (data, late)
        has_piece = kind == "text" or bool(self.dialect.arguments_in(data))
        self.pieces += has_piece
        if has_piece and self.why_not is not None and self.pieces == self.fault.nth:
            self.waiting = data
            return ()
        return (data,)

    def end(self) -> Sequence[Step]:
        return () if self.waiting is None else (self.waiting,)


class SwapEvents(StreamFault):
    """Swap one event of the stream with the next one.

    A client that joins the pieces gets the text, or a tool call's arguments, in a wrong order. If the next
    event ends the call, the block or the stream, the piece comes too late. Nothing reports it.
    """

    name = "swap_events"
    editor = _SwapEditor
    can_cause = frozenset({"bad_reply"})

    nth: int = Field(1, ge=1, description="number of the event, among those with text or tool call arguments")
