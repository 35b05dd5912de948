"""The carrier of messages between a client, the gateway and an upstream: HTTP/1 here, lines in ``lines``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Step, chunk
from wirefault.faults.plan import Plan
from wirefault.gateway.endpoint import Endpoint, rewrite
from wirefault.gateway.http1.framing import ReplyReader, Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import (
    ask_for_identity,
    chunks,
    header_block,
    reframed,
    steps_of,
)


class HasStatus(Protocol):
    """The head of a reply."""

    @property
    def status(self) -> int: ...


class MessageReader(Protocol):
    """Follows the reply to one request, as its carrier brings it. ``ReplyReader`` describes the members."""

    @property
    def head(self) -> HasStatus | None: ...

    @property
    def message(self) -> Reply: ...

    @property
    def encoding(self) -> str: ...

    @property
    def keep_alive(self) -> bool: ...

    @property
    def done(self) -> bool: ...

    @property
    def tunnel(self) -> bool: ...

    @property
    def error(self) -> str | None: ...

    @property
    def interim(self) -> int: ...

    @property
    def begun(self) -> bool: ...

    @property
    def ends_by_close(self) -> bool: ...

    @property
    def continued(self) -> bool: ...

    def feed(self, data: bytes) -> tuple[bytes, bytes]: ...

    def take_rest(self) -> bytes: ...

    def broken_off(self, reason: str | None, *, begun: bool) -> str: ...


class Carrier(Protocol):
    """Turns messages into the bytes of one kind of connection, and follows the replies in them."""

    def request_for(
        self, head: RequestHead, body: bytes, plan: Plan | None, endpoint: Endpoint, lab_headers: bytes
    ) -> tuple[RequestHead, bytes]:
        """Return the head that is sent, and the bytes for the upstream with the ``body`` that is here.

        The plan's faults may change it. ``lab_headers``: whole lines that replace the client's.
        """

    def reader(self, head: RequestHead, swallow_continue: bool, sink: Sink | None) -> MessageReader:
        """Return a reader of the reply to that request; ``sink`` gets the reply's body."""

    def size(self, data: bytes) -> int:
        """Return how many of these bytes count as the reply's."""

    def steps_of(
        self, reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool
    ) -> tuple[Sequence[Step], Ending]:
        """Return the bytes of a fault's or the gateway's own reply for the client, and how it ends."""

    def takes_streams(self, head: RequestHead) -> bool:
        """Whether that request's client accepts a reply of unknown length."""

    def stream_start(self, head: Reply, *, keep_alive: bool) -> bytes:
        """Return the bytes that begin an event stream."""

    def stream_steps(self, head: Reply, steps: Sequence[Step]) -> Sequence[Step]:
        """Return events of that stream, and waits, as the client gets them."""

    def stream_end(self, head: Reply) -> bytes:
        """Return the bytes that end it."""


class HttpCarrier:
    """Implements ``Carrier`` by HTTP/1."""

    size = staticmethod(len)

    def request_for(
        self, head: RequestHead, body: bytes, plan: Plan | None, endpoint: Endpoint, lab_headers: bytes
    ) -> tuple[RequestHead, bytes]:
        if plan is not None:
            head, body = _changed(head, plan, body)
        if endpoint.recorder is not None:
            ask_for_identity(head)  # so that the recording can be read, and compared in a diff
        return head, rewrite(head, endpoint, lab_headers) + body

    def reader(self, head: RequestHead, swallow_continue: bool, sink: Sink | None) -> ReplyReader:
        return ReplyReader(head.method, head.upgrade, swallow_continue, sink)

    def steps_of(
        self, reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool
    ) -> tuple[Sequence[Step], Ending]:
        return steps_of(reply, keep_alive=keep_alive, head_only=head_only), reply.ending

    def takes_streams(self, head: RequestHead) -> bool:
        return head.lines[0].endswith(b"HTTP/1.1")

    def stream_start(self, head: Reply, *, keep_alive: bool) -> bytes:
        return header_block(head, None, keep_alive=keep_alive)

    def stream_steps(self, head: Reply, steps: Sequence[Step]) -> Sequence[Step]:
        return chunks(steps)

    def stream_end(self, head: Reply) -> bytes:
        return chunk(b"")


HTTP = HttpCarrier()


def _changed(head: RequestHead, plan: Plan, body: bytes) -> tuple[RequestHead, bytes]:
    """Return the request as its faults want it: changed, and asking for a reply that they can read."""
    fault = plan.request_fault
    if fault is not None and fault.act.request is not None:
        changed = fault.guarded(reframed, fault.act.request, head)
        if changed is not None:
            head, body = changed
            fault.mark_injected()
    accepted = ask_for_identity(head) if plan.reply_candidates else ""
    if accepted not in ("", "identity"):
        for candidate in plan.reply_candidates:
            candidate.evidence["accept_encoding"] = accepted
    return head, body
