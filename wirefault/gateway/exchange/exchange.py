"""A request and its reply on one client connection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from wirefault.core.identity import fingerprint
from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply
from wirefault.dialects.mcp import (
    CALL,
    has_mcp_header,
    is_mcp_message,
    mcp_fingerprint,
    read_message,
)
from wirefault.dialects.model_requests import may_ask_model, spoken_model_api
from wirefault.dialects.realtime import REALTIME
from wirefault.dialects.registry import dialect_of
from wirefault.faults.base import WhyNot
from wirefault.faults.plan import Plan
from wirefault.gateway.budgets.enforcer import Charge
from wirefault.gateway.calls import CountedTry
from wirefault.gateway.endpoint import sender_in
from wirefault.gateway.exchange.bodies import BodyStart, ReplyRecord
from wirefault.gateway.http1.framing import NO_BODY, Body, ChunkedBody, SizedBody
from wirefault.gateway.http1.heads import RequestHead, read_header
from wirefault.gateway.lane import NO_ORIGIN, LaneAttempt, LinkListener, Origin
from wirefault.history.events import ShadowMet

SENDS_HEADER, WRITES_HEADER, WAITED_HEADER = "tool-sends", "tool-writes", "tool-waited"
MAX_FINGERPRINTED = 256 * 1024


class Decision(Struct):
    """Faults that a request meets, and further results of their decision; the plan has their acts."""

    eligible: Sequence[str] = ()
    """Ids of the faults that name its link."""
    shadows: Sequence[ShadowMet] = ()
    """Faults that it would have met in other arms."""
    charge: Charge | None = None
    """Set if a budget admitted it and counts it."""
    link_call: int = 1
    """Number of its call among all calls of the attempt on this link."""
    waits_for_toxics: bool = False
    """The manager changes the link's toxics before this call."""
    left_to_requests: bool = False
    """It calls a function whose requests meet the faults that do not name it."""
    remembers_reply: bool = False
    """A fault may repeat its reply later."""
    replay: Literal["", "hit", "miss"] = ""
    """Whether a clean run's reply of the model fits; empty if none is wanted."""
    replayed: Reply | None = None
    """That reply."""


class Exchange:
    """A request and its reply. Bytes are counted as they cross the client's side, header blocks included."""

    listener: LinkListener
    head: RequestHead
    origin: Origin
    crosses_toxic: bool
    """Whether its attempt has a toxic between the gateway and the client."""
    reply: ReplyRecord
    began: float
    """``perf_counter`` at the request's first byte."""
    opened: float | None
    """``perf_counter`` when its connection was opened; None if that has carried an earlier request. For a
    function: when its call began."""
    request_ended: float
    """... at its last byte."""
    ended: float
    """... at the reply's last byte, or at the end of an exchange without one."""
    request_bytes: int
    request_done: bool
    body_start: BodyStart | None
    """The first 256 KiB of what the body carries, for the fingerprint."""
    _body: Body
    keep_alive: bool
    tls: Literal["", "fresh", "kept"]
    message: str | None
    """MCP: method of the message, empty without one. None: the request is not of MCP, or not known to be."""
    tool: str
    """MCP: the tool that the message calls."""
    model_api: Dialect
    """On a link that was found at run time: the model's API that the request speaks. Empty for any other
    request, and until its body is known."""
    fingerprint: str
    call: int
    try_: int
    keyed: bool
    """Fingerprint, call and try are filled in."""
    counted: CountedTry | None
    """As the count of calls has it; None where its sender counts, and without faults on its link."""
    decision: Decision | None
    """None until the faults are decided, which most requests do not need."""
    is_model: bool
    """Whether it asks a model, as far as is known before ``settle_key``."""
    plan: Plan | None
    """Acts of its faults; None without any."""
    configuration: int
    """Number of the fault set in force."""
    waiting: list[bytes] | None
    """The request's bytes while faults may still act on it."""
    forwarding: bool
    """The upstream gets the request as it comes."""
    forwarded: bool
    """The upstream has the whole request."""
    continue_sent: bool
    """The gateway itself has sent 100 Continue."""
    client_left: bool
    left_at: float
    """When the client closed its side (``perf_counter``); 0 while it has not."""
    unavailable: bool
    """The upstream failed, and no injected fault is the cause."""
    outage: str
    """How its reply shows that, as a clause; empty without a reply, or if it is an answer."""
    error: str | None
    recorded: bool
    # Slots, here and in the heads and readers of ``http1``: reading one costs a quarter of reading a class
    # attribute (measure with ``python -m bench.gateway``).
    __slots__ = tuple(__annotations__)

    def __init__(self, listener: LinkListener, head: RequestHead, began: float) -> None:
        self.listener = listener
        self.head = head
        self.origin = NO_ORIGIN
        self.reply = ReplyRecord()
        self.began = self.ended = self.request_ended = began
        self.left_at = 0.0
        self.opened = None
        self.request_bytes = head.size
        self.keep_alive = head.keep_alive
        self.message = listener.no_message
        self.is_model = listener.is_model
        if listener.shows_mcp and has_mcp_header(head.lines):
            self.message = ""
        self.tls = self.tool = self.model_api = self.fingerprint = ""
        self.call = self.try_ = self.configuration = 0
        self.counted = self.decision = self.plan = self.waiting = self.error = None
        self.keyed = self.forwarding = self.forwarded = self.recorded = False
        self.crosses_toxic = self.continue_sent = self.client_left = self.unavailable = False
        self.outage = ""
        if head.chunked or head.length:
            self.body_start = BodyStart(MAX_FINGERPRINTED)
            keep = self.body_start.keep
            self._body = ChunkedBody(keep) if head.chunked else SizedBody(head.length, keep)
            self.request_done = False
        else:
            self.body_start, self._body, self.request_done = None, NO_BODY, True
            self.request_ended = time.perf_counter()  # the header block may have come in pieces

    def take_body(self, data: bytes) -> int:
        """Return how many of these bytes belong to the request. Raises ``BadBody``."""
        used = self._body.feed(data)
        self.request_bytes += used
        self.request_done = self._body.done
        if self.request_done:
            self.request_ended = time.perf_counter()
        return used

    def take_waiting(self) -> bytes:
        """Take out the bytes that waited for the faults' decision."""
        waiting, self.waiting = self.waiting, None
        return b"".join(waiting) if waiting else b""

    # whose request it is

    def identify(self, attempt: LaneAttempt | None) -> None:
        """Set the origin: the attempt of its connection (or lane), refined by baggage that is believed."""
        listener = self.listener
        sender = sender_in(self.head.baggage) if self.head.baggage else None
        self.origin, believed = listener.lane.origin_of(attempt, sender, listener.name)
        if believed is not None:
            self.call, self.try_ = believed.call, believed.try_
        if self.origin.run is not None:
            self.configuration = self.origin.run.configuration  # the decision about faults may replace it
        if listener.dialect_by_request and self.head.upgrade and self.path.endswith(REALTIME.path_end):
            self._note_model_api(REALTIME.name)
        if attempt is not None:
            self.crosses_toxic = listener.name in attempt.toxic_links
            if attempt.open_functions.running and not listener.is_function:
                attempt.open_functions.note_request()

    @property
    def attempt_is_over(self) -> bool:
        """Whether its attempt has ended, so that faults must hold nothing up any more."""
        attempt = self.origin.attempt
        return attempt is not None and attempt.settling

    def settle_key(self) -> None:
        """Fill in fingerprint, call and try. Call it once: it cuts ``body_start`` to what records keep."""
        self.keyed = True
        start, head = self.body_start, self.head
        if self.message is None and self.listener.shows_mcp and head.method == "POST":
            self.message = "" if start and is_mcp_message(bytes(start)) else None
            if start and self.message is None and self.listener.dialect_by_request:
                self._recognise_model(bytes(start), cut=start.cut or not self.request_done)
        if self.message is not None:
            body = bytes(start) if start else b""
            message = read_message(body)
            if message is not None:
                self.message = message.method or message.kind
                self.tool = message.name if message.method == CALL else ""
            self.fingerprint = mcp_fingerprint(head.method, head.target, body)
        elif not self.is_model:
            body = bytes(start[:MAX_FINGERPRINTED]) if start else b""
            self.fingerprint = fingerprint(head.method, head.target, body)
        if start:
            start.shorten()
        if not self.call and self.origin.attempt is not None:
            self.call = self.origin.attempt.calls.count_arrival(self.listener.name, self.fingerprint)
        self.try_ = self.try_ or 1

    def _recognise_model(self, body: bytes, *, cut: bool) -> None:
        api = spoken_model_api(self.path, body, cut=cut)
        if api:
            self._note_model_api(api)

    def _note_model_api(self, api: Dialect) -> None:
        self.model_api = api
        self.is_model = True
        self.listener.lane.note_model(self.listener.link, api)

    @property
    def is_left_to_requests(self) -> bool:
        """Whether faults that do not name it act on the requests that it sends: a function found at run time
        that sends requests, or whose code may."""
        if not (self.listener.is_function and self.listener.link.found) or self.origin.run is None:
            return False
        sends = self.origin.run.function_sends.get(self.path)
        return sends if sends is not None else bool(read_header(self.head, SENDS_HEADER))

    @property
    def is_marked_write(self) -> bool:
        """Whether it calls a function that the subject marks as a write."""
        return self.listener.is_function and bool(read_header(self.head, WRITES_HEADER))

    @property
    def has_sent_requests(self) -> bool:
        """Whether it calls a function that has sent a request in this run."""
        run = self.origin.run
        is_function = self.listener.is_function
        return run is not None and is_function and run.function_sends.get(self.path, False)

    @property
    def path(self) -> str:
        return self.head.target.partition("?")[0]

    @property
    def may_ask_model(self) -> bool:
        """Whether it asks a model, or its body may still show that."""
        if self.is_model or self.keyed or not self.listener.dialect_by_request:
            return self.is_model
        return self.message is None and self.head.method == "POST" and may_ask_model(self.path)

    @property
    def dialect(self) -> Dialect:
        """The API that it speaks, of a model or of tools."""
        if self.model_api:
            return self.model_api
        listener = self.listener
        return dialect_of(self.path, of_model=listener.is_model, otherwise=listener.link.dialect)

    # its faults

    @property
    def answered_by_fault(self) -> bool:
        """Whether a fault answers instead of the upstream."""
        return self.plan is not None and self.plan.answers

    def mark_faults_not_injected(self, why: WhyNot) -> None:
        """Record the reason for all faults that have not acted by now."""
        if self.plan is not None:
            self.plan.mark_not_injected(why)

    @property
    def fault_is_cause(self) -> bool:
        """Whether a fault that does more than delay was injected into a request that the upstream got."""
        if not self.forwarded or self.plan is None:
            return False
        return any(fault.injected and not fault.act.only_delays for fault in self.plan.met_faults)
