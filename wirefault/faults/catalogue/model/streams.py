"""Faults of a stream's length and pace: it is cut, hangs, ends early or comes slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT
from wirefault.dialects.base import TOKENS, EventKind, ModelDialect, before_finish
from wirefault.dialects.http import Ending, RawReply, Reply, Step, data_of, whole, with_data
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, WhyNot, evidence_text

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
        """What is sent for the event, which is counted already."""
        raise NotImplementedError

    def end(self) -> Sequence[Step]:
        return ()

    def changed(self, **evidence: Any) -> None:
        """Notes that the stream is no longer what it was."""
        self.why_not = None
        self.evidence |= evidence


class StreamFault(Fault):
    """Acts on event streams as they go by. A reply that is no event stream stays as it is."""

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
    "after so many events, inside a tool call's arguments, before the second tool call, or before the event "
    "with the finish reason"
)
_LONGEST = 600_000


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
        """What part of the event is still sent if the stream stops here; None if it goes on."""
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
    """The stream stops at a given place."""

    editor = _StopEditor

    at: _Place = Field("events", description=_PLACES)
    after: int = Field(3, ge=0, description="for events: how many are sent")

    @property
    def how(self) -> Ending:
        """How the connection ends. With ``keep`` the rest of the stream is read and not sent."""
        return "keep"

    def lets_pass(self, kind: EventKind) -> bool:
        """Whether such an event is sent even after the stop."""
        return False


class StreamCut(_Stop):
    """The stream's connection breaks: after some events, inside a tool call, or before the end.

    The last chunk of the body never comes, so that a careful client reports a broken transfer. Clients do
    not ask again, since part of the answer has been handed on. Through a proxy that ends connections in
    order (Toxiproxy among them) ``reset`` looks like ``close``.
    """

    name = "stream_cut"
    can_cause = CLOSED

    ending: Literal["close", "reset"] = Field("close", description="how the connection ends")

    @property
    def how(self) -> Ending:
        return self.ending


class StreamHang(_Stop):
    """The stream stops and its connection stays open: nothing more comes until the client leaves.

    A client's read timeout, which is for each wait, ends this; a client without one waits for ever.
    """

    name = "stream_hang"
    can_cause = TIMEOUT

    @property
    def how(self) -> Ending:
        return "hang"


class EarlyEnd(_Stop):
    """The stream ends cleanly, without a finish reason.

    By default all of the content has come, and only the events with the finish reason and what follows
    are missing; ``at`` and ``after`` make it end earlier. Clients take what has come for the whole answer.
    Gemini's streams have no event that ends them: there ``terminator`` changes nothing.
    """

    name = "early_end"

    at: _Place = Field("finish", description=_PLACES)
    terminator: bool = Field(
        False,
        description="still send the event that ends a stream, if that is not the one with the finish reason",
    )

    def lets_pass(self, kind: EventKind) -> bool:
        return self.terminator and kind == "end"


class _FirstEditor(Editor["SlowFirstToken"]):
    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        if kind not in TOKENS or self.why_not is None:
            return (data,)
        self.changed(delay_ms=self.fault.ms, event=self.seen)
        return (self.fault.ms / 1000, data)


class SlowFirstToken(StreamFault):
    """The first token comes late; a reply that is no stream comes late as a whole.

    The stream's first events, which hold no token, come at once: a client that counts the time to the
    first byte sees nothing.
    """

    name = "slow_first_token"
    editor = _FirstEditor
    can_cause = TIMEOUT

    ms: int = Field(2000, ge=1, le=_LONGEST, description="milliseconds")

    def act(self, tried: Try) -> Act | Miss:
        act = super().act(tried)
        return act if isinstance(act, Miss) else replace(act, reply=self._late)

    def _late(self, reply: Reply) -> Changed:
        late = RawReply((self.ms / 1000, b"".join(whole(reply))), "keep", reply.status)
        return Changed(late, {"delay_ms": self.ms})


class _SlowEditor(Editor["SlowTokens"]):
    def edit(self, data: bytes, kind: EventKind) -> Sequence[Step]:
        if kind not in TOKENS:
            return (data,)
        wait = self.fault.ms + self.fault.jitter_ms * self.tried.chance(f"token-{self.tokens}")
        self.changed(delay_ms=self.evidence.get("delay_ms", 0) + wait, events=self.tokens)
        return (wait / 1000, data)


class SlowTokens(StreamFault):
    """Every token of the stream comes late.

    No single wait is long, so that a client's read timeout, which is for each wait, does not end it.
    """

    name = "slow_tokens"
    editor = _SlowEditor
    can_cause = TIMEOUT

    ms: int = Field(100, ge=1, le=_LONGEST, description="milliseconds before each event with a token")
    jitter_ms: int = Field(0, ge=0, le=_LONGEST, description="milliseconds added by chance, at most")


class _Nth(StreamFault):
    """Changes one of the events that carry a piece of the answer."""

    nth: int = Field(1, ge=1, description="which of the events with text or with a tool call's arguments")

    def instead(self, data: bytes) -> bytes:
        """What is sent for the event."""
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
    """One event of the stream comes twice.

    A client that joins the pieces, as most do, has a piece of the text or of a tool call's arguments twice;
    arguments then are no JSON. Nothing reports it. The last event of OpenAI's Responses API has all of the
    reply anew: a client that takes it from there sees nothing.
    """

    name = "duplicate_event"
    editor = _NthEditor

    def instead(self, data: bytes) -> bytes:
        return data + data


class CorruptEvent(_Nth):
    """One event of the stream is damaged; those before and after it are whole.

    Its JSON is cut in half, replaced by words, or has a byte in it that is no UTF-8; or its data is JSON
    of a shape that no client expects.
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
