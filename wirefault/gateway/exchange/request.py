"""One request in progress: whose it is, and how far it and its reply came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from wirefault.core.identity import fingerprint
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.mcp import CALL, is_mcp_message, mcp_fingerprint, read_message
from wirefault.faults.base import Try, WhyNot
from wirefault.faults.matching.matcher import IncomingTry
from wirefault.faults.plan import Plan, plan_try, spared
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.budgets.enforcer import BudgetKeeper, Charge, Spender
from wirefault.gateway.endpoint import identity_in
from wirefault.gateway.exchange.bodies import STRUCK_START, BodyStart, NaturalReply, SentPieces, ServerReply
from wirefault.gateway.exchange.reply_changes import frame_lines
from wirefault.gateway.http1.framing import NO_BODY, Body, ChunkedBody, Sink, SizedBody
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import request_of
from wirefault.gateway.lane import LaneAttempt, attempt_fields
from wirefault.gateway.run import Run
from wirefault.history.events import ShadowMet

MAX_FINGERPRINTED = 256 * 1024


class RequestInProgress:
    """A request and its reply on one client connection.

    Bytes are counted as they crossed the client's side, header blocks included. ``began`` and ``ended``
    are on the clock of ``perf_counter``: the first byte, and the reply's last or the end without any;
    ``whole_at`` is the request's last byte. ``kept`` is what a model's client was sent, to be read later, and
    ``server_reply`` what a server of MCP answered by itself.
    ``keyed``: fingerprint, call and try are filled in. ``of_model``: it is on a link to a model. ``message``:
    on a link of MCP the method of the message that it carries, empty if it carries none, else None; ``tool``
    what that message calls. ``may_be_mcp``: nobody has declared what its link speaks, so that its own headers
    or its body tell whether it is of MCP. ``of_lines``: it came as a line, and its HTTP was made here.
    ``link_call``: the number of its call among all of the attempt on its link, once its faults are decided;
    ``waits_for_toxics``: before it these are to change.
    ``held`` is the request while faults may still act on it, ``plan`` what they do, ``charge`` what a budget
    has let through and counts, and ``attempt_json`` says in the record whose it is. ``client_eof_at``: when
    the client said that it sends no more, which one that leaves says too; ``reply_bytes_before_eof`` had been
    sent then. The fingerprint is of the first 256 KiB of what the body carries. ``reply_block`` is the header
    block of the reply that the client got and ``reply_start`` the start of its body, ``upstream_status`` what
    the upstream itself answered. ``natural``: its reply as it came, where a fault may change it. ``shadows``:
    what it would have met in other arms. ``crosses_toxic``: its attempt has a toxic between the gateway and
    the client. ``tls``: as the record has it.
    """

    link: str
    of_model: bool
    of_lines: bool
    message: str | None
    may_be_mcp: bool
    tool: str
    head: RequestHead
    began: float
    ended: float
    whole_at: float
    request_bytes: int
    keep_alive: bool
    run: Run | None
    attempt: LaneAttempt | None
    attempt_json: str
    episode: str
    attempt_number: int
    identity: Literal["baggage", "counted", "mismatch"]
    fingerprint: str
    call: int
    try_: int
    forwarded: bool
    reply_bytes: int
    client_eof_at: float | None
    reply_bytes_before_eof: int
    reply_done: bool
    client_left: bool
    status: int | None
    error: str | None
    unavailable: bool
    held: list[bytes] | None
    decided: bool
    forwarding: bool
    plan: Plan | None
    charge: Charge | None
    eligible: Sequence[str]
    shadows: Sequence[ShadowMet]
    reply_is_remembered: bool
    configuration: int
    link_call: int
    waits_for_toxics: bool
    crosses_toxic: bool
    swallow_continue: bool
    request_done: bool
    body_start: BodyStart | None
    reply_start: BodyStart | None
    reply_block: bytes
    upstream_status: int | None
    kept: SentPieces | None
    server_reply: ServerReply | None
    natural: NaturalReply | None
    _body: Body
    keyed: bool
    recorded: bool
    tls: Literal["", "fresh", "kept"]
    # Slots here and in the heads and readers of ``http1``: what every request reads costs a quarter of what a
    # class attribute in its place would, which ``python -m bench.gateway`` shows.
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        link: str,
        head: RequestHead,
        began: float,
        of_model: bool = False,
        message: str | None = None,
    ) -> None:
        self.link = link
        self.of_model = of_model
        self.of_lines = self.may_be_mcp = False
        self.message = message
        self.head = head
        self.began = self.ended = self.whole_at = began
        self.request_bytes = head.size
        self.keep_alive = head.keep_alive
        self.run = self.attempt = self.client_eof_at = self.status = self.error = self.held = self.plan = None
        self.charge = None
        self.reply_start = self.upstream_status = self.kept = self.server_reply = self.natural = None
        self.reply_block = b""
        self.attempt_json = self.episode = self.fingerprint = self.tool = ""
        self.attempt_number = self.call = self.try_ = self.configuration = self.link_call = 0
        self.reply_bytes = self.reply_bytes_before_eof = 0
        self.forwarding = self.forwarded = self.reply_done = self.client_left = self.unavailable = False
        self.decided = self.reply_is_remembered = self.swallow_continue = self.keyed = self.recorded = False
        self.waits_for_toxics = self.crosses_toxic = False
        self.identity = "counted"
        self.tls = ""
        self.eligible = self.shadows = ()
        if head.chunked or head.length:
            self.body_start = BodyStart(MAX_FINGERPRINTED)
            keep = self.body_start.keep
            self._body = ChunkedBody(keep) if head.chunked else SizedBody(head.length, keep)
            self.request_done = False
        else:
            self.body_start, self._body, self.request_done = None, NO_BODY, True
            self.whole_at = time.perf_counter()  # its header block may have come in pieces

    def take_body(self, data: bytes) -> int:
        """How many of these bytes are the request's. Raises ``BadBody``."""
        used = self._body.feed(data)
        self.request_bytes += used
        self.request_done = self._body.done
        if self.request_done:
            self.whole_at = time.perf_counter()
        return used

    def take_held(self) -> bytes:
        """Takes out what was held of the request."""
        held, self.held = self.held, None
        return b"".join(held) if held else b""

    # whose request it is

    def identify(self, run: Run | None, attempt: LaneAttempt | None) -> None:
        """Finds its attempt: the one of its connection (or lane), refined by the baggage that it sends."""
        if run is None and attempt is None:
            return
        sent = identity_in(self.head.baggage) if self.head.baggage else None
        if sent and run and sent.run == run.run_id and self.of_model:
            # One connection to the model carries several attempts: the request names its own.
            self.run, self.attempt = run, attempt
            self.episode, self.attempt_number = sent.episode, sent.attempt
            self.attempt_json = attempt_fields(sent.episode, sent.attempt)
            self.identity = "baggage"
        elif attempt is not None:
            run = attempt.run
            self.run, self.attempt = run, attempt
            self.episode, self.attempt_number = attempt.episode, attempt.number
            self.attempt_json = attempt.fields_json
            if sent:
                agrees = sent.run == run.run_id and attempt.is_(sent.episode, sent.attempt)
                self.identity = "baggage" if agrees else "mismatch"
        else:
            return
        if sent:
            self.call, self.try_ = sent.call, sent.try_
        self.crosses_toxic = attempt is not None and self.link in attempt.toxic_links
        # the decision about faults replaces it by the configuration then in force
        self.configuration = run.configuration

    def settle_key(self) -> None:
        """Fills in fingerprint, call and try: to be called once. The record needs the body's start, too."""
        self.keyed = True
        start = self.body_start
        if self.may_be_mcp and self.message is None and self.head.method == "POST":
            self.message = "" if start and is_mcp_message(bytes(start)) else None
        if self.message is not None:
            self._settle_message(bytes(start) if start else b"")
        elif not self.of_model:
            body = bytes(start[:MAX_FINGERPRINTED]) if start else b""
            self.fingerprint = fingerprint(self.head.method, self.head.target, body)
        if start:
            start.shorten()
        if not self.call and self.attempt is not None:
            self.call = self.attempt.count(self.link, self.fingerprint)
        self.try_ = self.try_ or 1

    def _settle_message(self, body: bytes) -> None:
        message = read_message(body)
        if message is not None:
            self.message = message.method or message.kind
            self.tool = message.name if message.method == CALL else ""
        self.fingerprint = mcp_fingerprint(self.head.method, self.head.target, body)

    @property
    def eof_at(self) -> float:
        """When a client that sends no more said so; the request's begin if it was before."""
        return self.began if self.client_eof_at is None else self.client_eof_at

    def reply_sink(self) -> Sink | None:
        """Takes what the reply's body carries, for the record; None if it keeps none of it."""
        run = self.run
        if run is None or not (run.keeps_bodies or self.crosses_toxic or self.plan is not None):
            return None
        self.reply_start = BodyStart() if run.keeps_bodies else BodyStart(STRUCK_START)
        return self.reply_start.keep

    def natural_sink(self) -> Sink | None:
        """Takes what the upstream's reply carries before faults change it; None if none of them may."""
        if self.run is None or self.plan is None:
            return None
        self.natural = NaturalReply()
        return self.natural.start.keep

    def upstream_sink(self) -> Sink | None:
        """Takes what the upstream's reply to a message of MCP carries; None if no record is made of it."""
        is_plain = self.keyed and self.message is None
        if self.run is None or self.head.method != "POST" or is_plain:
            return None
        self.server_reply = ServerReply()
        return self.server_reply.keep

    # its faults

    @property
    def answered_by_fault(self) -> bool:
        """Whether a fault answers in the upstream's place."""
        return self.plan is not None and self.plan.answers

    def mark_faults_not_injected(self, why: WhyNot) -> None:
        """The faults that have not acted by now will not."""
        if self.plan is not None:
            self.plan.mark_not_injected(why)

    @property
    def attempt_is_over(self) -> bool:
        """Whether its attempt has ended, so that nothing may be held up any more."""
        return self.attempt is not None and self.attempt.settling

    def reply_memory(self) -> Callable[[Reply], None] | None:
        """Takes the upstream's reply for faults that give it again later; None if there are none."""
        if self.run is None or not self.reply_is_remembered:
            return None
        return partial(self.run.matcher.remember, self.episode, self.link)


MAX_HELD_BODY = 16 << 20
# A body in tiny chunks is mostly framing: a request is decided once it is this many times its limit.
_FRAMING = 4
# how many tokens a request would take is told for nothing by Anthropic, OpenAI and Google
_FREE_OF_CHARGE = ("/count_tokens", "/input_tokens", ":countTokens")


def may_meet_fault(request: RequestInProgress) -> bool:
    """Whether a fault could act on the request, or a change of toxics must come first, so that it is held
    until its body is known."""
    run, attempt = request.run, request.attempt
    if run is None or request.identity == "mismatch":
        return False
    waits = attempt is not None and request.link in attempt.held_calls.links
    if waits or run.matcher.armed(request.link, request.of_model):
        return True
    if run.shadows is not None and run.shadows.armed(request.link, request.of_model):
        return True
    return run.budgets is not None and _uses_up(run.budgets, request)


def _uses_up(budgets: BudgetKeeper, request: RequestInProgress) -> bool:
    """Whether it may be one of the requests that are counted: of a model its questions, with a body."""
    if not budgets.counts(of_model=request.of_model):
        return False
    path = request.head.target.partition("?")[0]
    return not request.of_model or (request.head.method == "POST" and not path.endswith(_FREE_OF_CHARGE))


def hold(request: RequestInProgress) -> None:
    """Begins to hold the request, as much of its body as the armed faults need."""
    request.held = []
    start, run = request.body_start, request.run
    needed = request.message is not None or (run is not None and _needs_body(run, request.link))
    if start is not None and needed:
        start.limit = MAX_HELD_BODY


def _needs_body(run: Run, link: str) -> bool:
    """Whether a fault, or the shadow of one, reads bodies there beyond what the fingerprint takes."""
    return run.matcher.needs_body(link) or (run.shadows is not None and run.shadows.needs_body(link))


def can_be_decided(request: RequestInProgress) -> bool:
    """Whether so much of the request has come that its faults can be decided."""
    if request.request_done or request.body_start is None:
        return True
    limit = request.body_start.limit
    framed = request.request_bytes - request.head.size
    return len(request.body_start) >= limit or framed >= _FRAMING * limit


def ask_faults(request: RequestInProgress) -> None:
    """Decides at once if the request is whole; holds a request that faults may act on."""
    if not request.request_done:
        hold(request)
        return
    decide(request)
    if request.plan is not None or request.waits_for_toxics:
        hold(request)


def decide(request: RequestInProgress) -> None:
    """Sets the request's plan, what was eligible, and the configuration that was asked."""
    run, head, start = request.run, request.head, request.body_start
    assert run is not None
    matcher, link = run.matcher, request.link
    request.decided = True
    whole = request.request_done and (start is None or not start.cut)
    body = bytes(start) if start else b""
    request.settle_key()
    now, attempt = time.perf_counter(), request.attempt
    attempt_s, turn, request.link_call = 0.0, 1, 1
    if attempt is not None:
        attempt_s, turn = now - attempt.began, attempt.turn
        request.link_call = _call_of_link(request, attempt)
        if link in attempt.held_calls.links and not attempt.settling:
            request.waits_for_toxics = attempt.held_calls.must_wait(link, request.link_call)
    request.configuration = run.configuration
    request.reply_is_remembered = link in matcher.remembering

    shown: Request | None = None  # not kept with the request: it may be large, and a reply may last

    def read() -> Request:
        nonlocal shown
        if shown is None:
            shown = request_of(head, body)
        return shown

    path = head.target.partition("?")[0]
    incoming = IncomingTry(
        link,
        head.method,
        path,
        read,
        request.fingerprint,
        request.episode,
        request.attempt_number,
        request.call,
        request.try_,
        now - run.began,
        request.of_model,
        request.message,
        request.of_lines,
        attempt_s,
        request.link_call,
        turn,
    )
    matched = matcher.match(incoming)
    request.eligible = matched.eligible
    # first, since a provider that refuses a request does nothing else with it
    of_budgets = _met_budgets(request, run, incoming) if run.budgets is not None else ()
    if of_budgets or matched.met:
        plan = plan_try([*of_budgets, *matched.met], whole=whole)
        called = request.attempt_number, link, request.fingerprint, request.call
        if matched.met and plan.acts and not run.may_strike(request.episode, called):
            # a blast radius is for faults: a budget is what the subject is given, and holds beyond it
            plan = plan_try(of_budgets, whole=whole) if of_budgets else spared(plan)
        if request.of_lines:
            frame_lines(plan)
        request.plan = plan if plan.met_faults else None
    if run.shadows is not None:
        request.shadows = run.shadows.met(incoming, whole=whole)


def _call_of_link(request: RequestInProgress, attempt: LaneAttempt) -> int:
    """Its call's number on the link in the attempt. Of MCP's messages those that call a tool are counted."""
    if request.message is not None and request.message != CALL:
        return attempt.last_call(request.link)
    return attempt.count_call(request.link, request.fingerprint, request.call)


def _met_budgets(request: RequestInProgress, run: Run, incoming: IncomingTry) -> Sequence[tuple[Entry, Try]]:
    """What the run's budgets do to the request; they count it if they let it through."""
    if run.budgets is None or not _uses_up(run.budgets, request):
        return []
    if request.message is not None and not request.tool:
        return []  # it calls no tool, as most messages of MCP
    spender = Spender(request.episode, request.attempt_number, request.link, request.of_model)
    entries, request.charge = run.admit(spender)
    return [(entry, run.matcher.try_of(entry, incoming)) for entry in entries]
