"""One request in progress: who sent it, how far it and its reply came, and the record of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Literal

from windtunnel.core.fingerprint import fingerprint
from windtunnel.core.identity import Identity, parse_baggage
from windtunnel.dialects.http import Reply, Request
from windtunnel.faults.base import WhyNot
from windtunnel.faults.matching.matcher import IncomingTry
from windtunnel.faults.plan import Plan, plan
from windtunnel.gateway.connection.record import exchange_line
from windtunnel.gateway.http1.framing import NO_BODY, Body, ChunkedBody, SizedBody
from windtunnel.gateway.http1.heads import RequestHead
from windtunnel.gateway.http1.messages import request_of
from windtunnel.gateway.lane import Attempt, Run, named
from windtunnel.links.catalog import MODEL_LINK

MAX_FINGERPRINTED = 256 * 1024
MAX_READ = 16 << 20
# A body in absurdly small chunks: its framing is this much longer than what it carries, then we decide.
_FRAMING = 4
# The tries of an attempt mostly share one value: their first call of its kind, first try.
_IDENTITIES = 1024


@lru_cache(_IDENTITIES)
def _identity_of(baggage: bytes) -> Identity | None:
    return parse_baggage(baggage.decode("latin-1"))


class _Payload(bytearray):
    """The first part of what a body carries: ``limit`` bytes of it. ``cut``: there was more."""

    limit = MAX_FINGERPRINTED
    cut = False

    def keep(self, data: bytes) -> None:
        room = self.limit - len(self)
        self.cut = self.cut or len(data) > room
        if room > 0:
            self.extend(data[:room])


class RequestInProgress:
    """A request and its reply on one client connection.

    Bytes are counted as they crossed the client's side, header blocks included. ``began`` and ``ended``
    are on the clock of ``perf_counter``: the first byte, and the reply's last or the end without any.
    ``held`` is the request while faults may still act on it, ``plan`` what they do, and ``named`` says in
    the record whose it is. The fingerprint is of the first 256 KiB of what the body carries.
    """

    # Class attributes stand for what does not hold yet: every request pays for each that is set.
    run: Run | None = None
    named = ""
    attempt: Attempt | None = None
    episode = ""
    number = 0
    identity: Literal["baggage", "counted", "mismatch"] = "counted"
    fingerprint = ""
    call = 0
    try_ = 0
    forwarded = False
    reply_bytes = 0
    reply_done = False
    status: int | None = None
    error: str | None = None
    held: list[bytes] | None = None
    decided = False
    forwarding = False
    plan: Plan | None = None
    eligible: Sequence[str] = ()
    remembers = False
    configuration = 0
    swallow_continue = False
    request_done = True
    body: Body = NO_BODY
    _payload: _Payload | None = None
    _keyed = False
    _recorded = False

    def __init__(self, link: str, head: RequestHead, began: float) -> None:
        self.link = link
        self.head = head
        self.began = self.ended = began
        self.request_bytes = head.size
        self.keep_alive = head.keep_alive
        if head.chunked or head.length:
            self._payload = _Payload()
            keep = self._payload.keep
            self.body = ChunkedBody(keep) if head.chunked else SizedBody(head.length, keep)
            self.request_done = False

    def take_body(self, data: bytes) -> int:
        """How many of these bytes are the request's. Raises ``BadBody``."""
        used = self.body.feed(data)
        self.request_bytes += used
        self.request_done = self.body.done
        return used

    # whose request it is

    def identify(self, run: Run | None, attempt: Attempt | None) -> None:
        """Says whose it is: of the attempt that its connection (or lane) has, refined by its baggage."""
        if run is None and attempt is None:
            return
        sent = _identity_of(self.head.baggage) if self.head.baggage_at else None
        if sent and run and sent.run == run.run_id and self.link == MODEL_LINK.name:
            # One connection to the model carries several attempts: the request names its own.
            self.run, self.attempt = run, attempt
            self.episode, self.number = sent.episode, sent.attempt
            self.named = named(run.run_id, sent.episode, sent.attempt)
            self.identity = "baggage"
        elif attempt is not None:
            self.run, self.attempt = attempt.run, attempt
            self.episode, self.number, self.named = attempt.episode, attempt.number, attempt.named
            if sent:
                same = sent.run == attempt.run.run_id and attempt.is_(sent.episode, sent.attempt)
                self.identity = "baggage" if same else "mismatch"
        if self.run is not None:
            if sent:
                self.call, self.try_ = sent.call, sent.try_
            # taken again when faults are asked: the one in force then counts
            self.configuration = self.run.configuration

    def _settle_key(self, run: Run) -> None:
        """Fills in fingerprint, call and try, once."""
        if self._keyed:
            return
        self._keyed = True
        payload = self._payload
        if self.link != MODEL_LINK.name:
            body = bytes(payload[:MAX_FINGERPRINTED]) if payload else b""
            self.fingerprint = fingerprint(self.head.method, self.head.target, body)
        if payload:
            payload.clear()
        if not self.call and self.attempt is not None:
            self.call = self.attempt.count(self.link, self.fingerprint)
        self.try_ = self.try_ or 1

    # faults

    @property
    def may_meet_fault(self) -> bool:
        """Whether a fault could strike it, so that it must be held until its body is known."""
        return self.run is not None and self.run.tally.armed(self.link) and self.identity != "mismatch"

    def hold(self) -> None:
        """Begins to keep it, so much of it as the armed faults need."""
        assert self.run is not None
        self.held = []
        if self._payload is not None and self.run.tally.needs_body(self.link):
            self._payload.limit = MAX_READ

    @property
    def can_be_decided(self) -> bool:
        if self.request_done or self._payload is None:
            return True
        limit = self._payload.limit
        kept, framed = len(self._payload), self.request_bytes - self.head.size
        return kept >= limit or framed >= _FRAMING * limit

    def decide(self) -> None:
        """Asks the armed faults, once."""
        run, head, payload = self.run, self.head, self._payload
        assert run is not None
        self.decided = True
        whole = self.request_done and (payload is None or not payload.cut)
        body = bytes(payload) if payload else b""
        self._settle_key(run)
        self.configuration = run.configuration
        self.remembers = run.tally.remembers(self.link)

        shown: Request | None = None  # not kept with the turn: it may be large, and a reply may last

        def read() -> Request:
            nonlocal shown
            if shown is None:
                shown = request_of(head, body)
            return shown

        path = head.target.partition("?")[0]
        key = (self.fingerprint, self.episode, self.number, self.call, self.try_)
        met = run.tally.match(IncomingTry(self.link, head.method, path, read, *key, run.elapsed_s))
        self.eligible = met.eligible
        if met.met:
            made = plan(met.met, whole=whole)
            self.plan = made if made.met_faults else None

    def take_held(self) -> bytes:
        """What was held of it, to be forwarded."""
        held, self.held = self.held, None
        return b"".join(held) if held else b""

    @property
    def answered_here(self) -> bool:
        """Whether a fault answers in the upstream's place."""
        return self.plan is not None and self.plan.answers

    def miss(self, why: WhyNot) -> None:
        """The faults that have not acted by now will not."""
        if self.plan is not None:
            self.plan.miss(why)

    @property
    def settling(self) -> bool:
        """Whether its attempt is over, so that nothing may be held up any more."""
        return self.attempt is not None and self.attempt.settling

    @property
    def memory(self) -> Callable[[Reply], None]:
        """Where its natural reply is kept, for a fault that may give it again."""
        assert self.run is not None
        return partial(self.run.tally.remember, self.episode, self.link)

    # the record

    def record(self) -> None:
        """Writes the exchange into its run's history, once."""
        if self.run is None or self._recorded:
            return
        self._recorded = True
        if not self.reply_bytes:
            self.ended = time.perf_counter()
        if self.request_done and not self._keyed:
            self._settle_key(self.run)
        self.run.write(exchange_line(self))
