"""A request and its reply on one client connection, and the decision about the faults that it meets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from wirefault.core.identity import fingerprint
from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.mcp import (
    CALL,
    SESSION_HEADER,
    has_mcp_header,
    is_mcp_message,
    mcp_fingerprint,
    read_message,
)
from wirefault.dialects.model_requests import may_ask_model, spoken_model_api
from wirefault.dialects.realtime import REALTIME
from wirefault.dialects.registry import dialect_of
from wirefault.faults.base import Try, WhyNot
from wirefault.faults.matching.matcher import IncomingTry
from wirefault.faults.plan import Plan, outside_radius, plan_try
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.budgets.enforcer import BudgetEnforcer, Charge, Spender
from wirefault.gateway.calls import CallName, CountedTry
from wirefault.gateway.endpoint import sender_in
from wirefault.gateway.exchange.bodies import BodyStart, ReplyRecord, kept_text
from wirefault.gateway.http1.framing import NO_BODY, Body, ChunkedBody, SizedBody
from wirefault.gateway.http1.heads import (
    CONTENT_ENCODING,
    OPERATION,
    RequestHead,
    client_credential,
    read_header,
    sdk_retries,
)
from wirefault.gateway.http1.messages import request_of
from wirefault.gateway.lane import NO_ORIGIN, LaneAttempt, LinkListener, Origin
from wirefault.gateway.replayed_model import ReplayedModel
from wirefault.gateway.run import Run
from wirefault.history.events import ShadowMet
from wirefault.wiring.write_requests import WRITING_METHODS, SentRequest, write_kind

MAX_FINGERPRINTED = 256 * 1024
MAX_HELD_BODY = 16 << 20
# A body in tiny chunks is mostly framing: its faults are decided at this many times the limit.
_FRAMING = 4
# Anthropic, OpenAI and Google count the tokens of a request for free.
_FREE_OF_CHARGE = ("/count_tokens", "/input_tokens", ":countTokens")


@dataclass(slots=True)
class Decision:
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
    reply: ReplyRecord
    began: float
    """``perf_counter`` at the request's first byte."""
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
        self.request_bytes = head.size
        self.keep_alive = head.keep_alive
        self.message = listener.no_message
        self.is_model = listener.is_model
        if listener.dialect_by_request and has_mcp_header(head.lines):
            self.message = ""
        self.tls = self.tool = self.model_api = self.fingerprint = ""
        self.call = self.try_ = self.configuration = 0
        self.counted = self.decision = self.plan = self.waiting = self.error = None
        self.keyed = self.forwarding = self.forwarded = self.recorded = False
        self.continue_sent = self.client_left = self.unavailable = False
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
        lane = self.listener.lane
        sender = sender_in(self.head.baggage) if self.head.baggage else None
        self.origin, believed = lane.origin_of(attempt, sender, self.listener.name)
        if believed is not None:
            self.call, self.try_ = believed.call, believed.try_
        if self.origin.run is not None:
            self.configuration = self.origin.run.configuration  # the decision about faults may replace it
        if self.listener.dialect_by_request and self.head.upgrade and self.path.endswith(REALTIME.path_end):
            self._note_model_api(REALTIME.name)

    @property
    def crosses_toxic(self) -> bool:
        """Whether its attempt has a toxic between the gateway and the client."""
        attempt = self.origin.attempt
        return attempt is not None and self.listener.name in attempt.toxic_links

    @property
    def attempt_is_over(self) -> bool:
        """Whether its attempt has ended, so that faults must hold nothing up any more."""
        attempt = self.origin.attempt
        return attempt is not None and attempt.settling

    def settle_key(self) -> None:
        """Fill in fingerprint, call and try. Call it once: it cuts ``body_start`` to what records keep."""
        self.keyed = True
        start, head = self.body_start, self.head
        if self.message is None and self.listener.dialect_by_request and head.method == "POST":
            self.message = "" if start and is_mcp_message(bytes(start)) else None
            if start and self.message is None:
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
    def is_found_function(self) -> bool:
        """Whether it calls a function of the subject that no wiring names."""
        return self.listener.link.is_in_process and self.listener.link.found

    def note_function(self) -> None:
        """It runs from now on, or sends a request on behalf of the one function that runs."""
        attempt, run = self.origin.attempt, self.origin.run
        if attempt is None or run is None:
            return
        if self.listener.link.is_in_process:
            attempt.open_functions[self.path] += 1
        elif len(attempt.open_functions) == 1:
            run.functions_with_requests.update(attempt.open_functions)

    def end_function(self) -> None:
        """It has returned."""
        attempt = self.origin.attempt
        if attempt is not None and self.listener.link.is_in_process:
            attempt.open_functions[self.path] -= 1
            attempt.open_functions += Counter()  # drops what is 0

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

    @property
    def waits_for_toxics(self) -> bool:
        return self.decision is not None and self.decision.waits_for_toxics

    def mark_faults_not_injected(self, why: WhyNot) -> None:
        """Record the reason for all faults that have not acted by now."""
        if self.plan is not None:
            self.plan.mark_not_injected(why)

    def reply_memory(self) -> Callable[[Reply], None] | None:
        """Return where faults that repeat the reply later want it; None without such faults."""
        run = self.origin.run
        if run is None or self.decision is None or not self.decision.remembers_reply:
            return None
        return partial(run.matcher.remember, self.origin.episode, self.listener.name)

    @property
    def fault_is_cause(self) -> bool:
        """Whether a fault that does more than delay was injected into a request that the upstream got."""
        if not self.forwarded or self.plan is None:
            return False
        return any(fault.injected and not fault.act.only_delays for fault in self.plan.met_faults)


def may_meet_fault(exchange: Exchange) -> bool:
    """Whether a fault may act on the request, or its link's toxics must change first.

    Such a request waits here until its body is known.
    """
    listener, origin = exchange.listener, exchange.origin
    run, attempt = origin.run, origin.attempt
    if run is None or attempt is None:
        return False
    if listener.name in attempt.call_holds.links:
        return True
    if run.writes is not None and exchange.head.method in WRITING_METHODS and not exchange.is_model:
        return True  # its body shows whether it is a write
    if run.replay is not None and exchange.may_ask_model:
        return True  # its body shows which recorded reply fits
    if _meets_as(exchange, run, of_model=exchange.is_model):
        return True
    return exchange.may_ask_model != exchange.is_model and _meets_as(exchange, run, of_model=True)


def _meets_as(exchange: Exchange, run: Run, *, of_model: bool) -> bool:
    """The same for a request that does, or does not, ask a model."""
    link = exchange.listener.name
    if exchange.is_found_function and exchange.path in run.functions_with_requests:
        return False
    if run.matcher.armed(link, of_model):
        return True
    if run.shadows is not None and run.shadows.armed(link, of_model=of_model):
        return True
    return run.budgets is not None and _is_counted(run.budgets, exchange, of_model=of_model)


def _is_counted(budgets: BudgetEnforcer, exchange: Exchange, *, of_model: bool) -> bool:
    """Whether a budget counts requests like this one: of a model only questions, which have a body."""
    if not budgets.counts(of_model=of_model):
        return False
    return not of_model or (exchange.head.method == "POST" and not exchange.path.endswith(_FREE_OF_CHARGE))


def ask_faults(exchange: Exchange) -> None:
    """Decide at once if the request is whole; hold it if faults may act on it."""
    if not exchange.request_done:
        _hold(exchange)
        return
    decide(exchange)
    if exchange.plan is not None or exchange.waits_for_toxics:
        exchange.waiting = []


def _hold(exchange: Exchange) -> None:
    """Begin to hold the request, and as much of its body as the armed faults need."""
    exchange.waiting = []
    start, run, link = exchange.body_start, exchange.origin.run, exchange.listener.name
    needs_body = exchange.message is not None or (
        run is not None
        and (
            run.replay is not None
            or run.matcher.needs_body(link)
            or (run.shadows is not None and run.shadows.needs_body(link))
        )
    )
    if start is not None and needs_body:
        start.limit = MAX_HELD_BODY


def can_be_decided(exchange: Exchange) -> bool:
    """Whether enough of the request is here to decide its faults."""
    start = exchange.body_start
    if exchange.request_done or start is None:
        return True
    framed = exchange.request_bytes - exchange.head.size
    return len(start) >= start.limit or framed >= _FRAMING * start.limit


def decide(exchange: Exchange) -> None:
    """Set the decision, the plan and the number of the fault set that was asked."""
    listener, origin = exchange.listener, exchange.origin
    run, attempt, link = origin.run, origin.attempt, listener.name
    assert run is not None
    decision = exchange.decision = Decision(remembers_reply=link in run.matcher.remembering)
    start = exchange.body_start
    whole = exchange.request_done and (start is None or not start.cut)
    body = bytes(start) if start else b""
    is_numbered = exchange.call > 0  # by its sender
    exchange.settle_key()
    now = time.perf_counter()
    call = CallName(exchange.fingerprint, exchange.call)
    if attempt is not None:
        call = call if is_numbered else _counted_call(exchange, attempt, body, whole=whole)
        decision.link_call = _number_on_link(exchange, attempt, call)
        if link in attempt.call_holds.links and not attempt.settling:
            decision.waits_for_toxics = attempt.call_holds.must_wait(link, decision.link_call)
    exchange.configuration = run.configuration

    incoming = IncomingTry(
        link,
        exchange.head.method,
        exchange.head.target.partition("?")[0],
        _request_reader(exchange.head, body),
        exchange.fingerprint,
        origin.episode,
        origin.attempt_number,
        exchange.call,
        exchange.try_,
        now - run.began,
        exchange.is_model,
        exchange.message,
        listener.is_lines,
        now - attempt.began if attempt is not None else 0.0,
        decision.link_call,
        attempt.turn if attempt is not None else 1,
        call.number,
        exchange.dialect if exchange.is_model else "",
        origin.episode in run.episodes_with_write,
        call.fingerprint,
        partial(is_write, exchange),
    )
    matched = run.matcher.match(incoming)
    decision.eligible = matched.eligible
    # budgets first: a provider that refuses a request does nothing else with it
    budget_faults = _met_budgets(exchange, decision, run, incoming)
    if budget_faults or matched.met:
        plan = plan_try([*budget_faults, *matched.met], whole=whole)
        called = origin.attempt_number, link, *call
        if matched.met and plan.acts and not run.in_blast_radius(origin.episode, called):
            # a blast radius limits faults; a budget is part of the subject's world and applies outside the
            # radius
            plan = plan_try(budget_faults, whole=whole) if budget_faults else outside_radius(plan)
        exchange.plan = plan if plan.met_faults else None
    if run.shadows is not None:
        decision.shadows = run.shadows.match(incoming, whole=whole)
    if run.replay is not None:
        _replay(exchange, decision, run.replay, body, whole=whole)


def _replay(
    exchange: Exchange, decision: Decision, replay: ReplayedModel, body: bytes, *, whole: bool
) -> None:
    """Choose the recorded reply to a model's request that comes before a fault, or that a fault strikes."""
    link, episode, plan = exchange.listener.name, exchange.origin.episode, exchange.plan
    changed = plan is not None and plan.request_fault is not None
    if exchange.is_model and whole and not changed and replay.replays(link, episode):
        decision.replayed = replay.next_reply(link, request_of(exchange.head, body))
        decision.replay = "hit" if decision.replayed is not None else "miss"
    if plan is not None and plan.acts:
        replay.note_fault(episode)


def call_name(exchange: Exchange) -> str:
    """Return the MCP tool that the request calls, else its method, its path and its operation."""
    return (
        exchange.tool
        or f"{exchange.head.method} {exchange.path} {_client_request(exchange).operation}".rstrip()
    )


def _client_request(exchange: Exchange) -> SentRequest:
    """Return the client's request as far as it shows whether it is a write."""
    head, start = exchange.head, exchange.body_start
    encoding = head.noted.get(CONTENT_ENCODING, "").lower()
    body, cut = kept_text(start, encoding, str) if start else ("", False)
    return SentRequest(
        head.method,
        head.target,
        body,
        exchange.request_done and not cut,
        exchange.message or "",
        exchange.tool,
        exchange.message is not None,
        head.noted.get(OPERATION, ""),
    )


def is_write(exchange: Exchange) -> bool:
    """Whether the client's request, which asks no model, is a declared or probable write.

    A fault may have changed it, but whether it writes stays the same.
    """
    run = exchange.origin.run
    read_only = run.read_only_tools.get(exchange.listener.name, ()) if run is not None else ()
    return write_kind(exchange.listener.link, _client_request(exchange), read_only) is not None


def _request_reader(head: RequestHead, body: bytes) -> Callable[[], Request]:
    """Read the request at most once, and keep it no longer than the decision: it may be large."""
    request: Request | None = None

    def read() -> Request:
        nonlocal request
        if request is None:
            request = request_of(head, body)
        return request

    return read


def _counted_call(exchange: Exchange, attempt: LaneAttempt, body: bytes, *, whole: bool) -> CallName:
    """Return the call as triggers count it: a client's own retry is a try of the call that it repeats."""
    head = exchange.head
    is_message = exchange.message is not None
    session = read_header(head, SESSION_HEADER) if is_message else ""
    tried = exchange.counted = CountedTry(
        exchange.listener.name,
        head.method,
        head.target,
        exchange.fingerprint,
        body,
        len(body) if whole else head.length or None,
        exchange.began,
        of_model=exchange.is_model,
        tool=exchange.tool,
        is_protocol=is_message and exchange.message != CALL,
        access=f"{client_credential(head)} {session}",
        key_field=exchange.listener.link.key or "",
    )
    is_marked = bool(head.noted) and sdk_retries(head.noted) > 0
    return attempt.calls.name(tried, exchange.call, is_marked=is_marked)


def _number_on_link(exchange: Exchange, attempt: LaneAttempt, call: CallName) -> int:
    """Number the call among all of the attempt on its link. Of MCP's messages only tool calls count."""
    if exchange.message is not None and exchange.message != CALL:
        return attempt.calls.last_on_link(exchange.listener.name)
    return attempt.calls.number_on_link(exchange.listener.name, call)


def _met_budgets(
    exchange: Exchange, decision: Decision, run: Run, incoming: IncomingTry
) -> Sequence[tuple[Entry, Try]]:
    """Return what the run's budgets do to the request; they count it if they let it through."""
    if run.budgets is None or not _is_counted(run.budgets, exchange, of_model=exchange.is_model):
        return ()
    if exchange.message is not None and not exchange.tool:
        return ()  # most messages of MCP call no tool
    origin, listener = exchange.origin, exchange.listener
    spender = Spender(origin.episode, origin.attempt_number, listener.name, exchange.is_model)
    entries, decision.charge = run.admit(spender)
    return [(entry, run.matcher.try_of(entry, incoming)) for entry in entries]
