"""One request in progress: who sent it, how far it and its reply came, and the record of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from typing import Literal

from windtunnel.baggage import Identity, parse_baggage
from windtunnel.catalog import MODEL_LINK
from windtunnel.faults import Reply, RequestView
from windtunnel.gateway.framing import Body, ChunkedBody, SizedBody
from windtunnel.gateway.heads import RequestHead
from windtunnel.gateway.lane import Attempt, Run
from windtunnel.schedule import fingerprint

MAX_FINGERPRINTED = 256 * 1024
# A body in absurdly small chunks: its framing is this much longer than what it carries, then we decide.
_MAX_HELD = 4 * MAX_FINGERPRINTED
# The tries of an attempt mostly share one value: their first call of its kind, first try.
_identity_of = lru_cache(maxsize=1024)(parse_baggage)
_BOOL = ("false", "true")


class _Payload(bytearray):
    """The first part of what a body carries."""

    def keep(self, data: bytes) -> None:
        room = MAX_FINGERPRINTED - len(self)
        if room > 0:
            self.extend(data[:room])


@dataclass(slots=True, eq=False)
class Turn:
    """A request and its reply on one client connection.

    Bytes are counted as they crossed the client's side, header blocks included. ``began`` and ``ended``
    are on the clock of ``perf_counter``. ``held`` is the request while a fault may still answer it, and
    ``answer`` that fault's reply. The fingerprint is of the first 256 KiB of what the body carries.
    """

    link: str
    head: RequestHead
    began: float
    ended: float = field(init=False)
    started: float = field(init=False)
    body: Body = field(init=False)
    run: Run | None = None
    attempt: Attempt | None = None
    episode: str = ""
    number: int = 0
    identity: Literal["baggage", "counted", "mismatch"] = "counted"
    fingerprint: str = ""
    call: int = 0
    try_: int = 0
    request_bytes: int = field(init=False)
    request_done: bool = field(init=False)
    forwarded: bool = False
    reply_bytes: int = 0
    reply_done: bool = False
    status: int | None = None
    error: str | None = None
    keep_alive: bool = field(init=False)
    held: list[bytes] | None = None
    answer: Reply | None = None
    swallow_continue: bool = False
    _payload: _Payload = field(default_factory=_Payload)
    _keyed: bool = False
    _recorded: bool = False

    def __post_init__(self) -> None:
        head = self.head
        self.ended = self.began
        self.started = time.time() - (time.perf_counter() - self.began)
        keep = self._payload.keep
        self.body = ChunkedBody(keep) if head.chunked else SizedBody(head.length, keep)
        self.request_done = self.body.done
        self.request_bytes = head.size
        self.keep_alive = head.keep_alive

    def take_body(self, data: bytes) -> int:
        """How many of these bytes are the request's. Raises ``BadBody``."""
        used = self.body.feed(data)
        self.request_bytes += used
        self.request_done = self.body.done
        return used

    # whose request it is

    def identify(self, run: Run | None, attempt: Attempt | None) -> None:
        """Says whose it is: of the attempt that its connection (or lane) has, refined by its baggage."""
        sent = _identity_of(self.head.baggage) if self.head.baggage_at else None
        if self.link == MODEL_LINK.name and run and sent and sent.run == run.run_id:
            # One connection to the model carries several attempts: the request names its own.
            self.run, self.attempt = run, attempt
            self._name(sent.episode, sent.attempt, sent)
        elif attempt is not None:
            self.run, self.attempt = attempt.run, attempt
            self._name(attempt.episode, attempt.number, sent)
            if sent and (sent.run != attempt.run.run_id or not attempt.is_(sent.episode, sent.attempt)):
                self.identity = "mismatch"

    def _name(self, episode: str, number: int, sent: Identity | None) -> None:
        self.episode, self.number = episode, number
        if sent is not None:
            self.identity = "baggage"
            self.call, self.try_ = sent.call, sent.try_

    def _settle_key(self, run: Run) -> None:
        """Fills in fingerprint, call and try, once."""
        if self._keyed:
            return
        self._keyed = True
        if self.link != MODEL_LINK.name:
            self.fingerprint = fingerprint(self.head.method, self.head.target, bytes(self._payload))
        self._payload.clear()
        if not self.call and self.attempt is not None:
            self.call = self.attempt.count(self.link, self.fingerprint)
        self.try_ = self.try_ or 1

    # faults

    @property
    def may_be_answered(self) -> bool:
        """Whether a fault could answer it, so that it must be held until its body is known."""
        return self.run is not None and bool(self.run.faults[self.link]) and self.identity != "mismatch"

    @property
    def can_be_decided(self) -> bool:
        return (
            self.request_done
            or len(self._payload) >= MAX_FINGERPRINTED
            or self.request_bytes - self.head.size >= _MAX_HELD
        )

    def decide(self) -> bytes | None:
        """What was held, to be forwarded; None if a fault answers instead."""
        assert self.run is not None and self.held is not None
        held, self.held = b"".join(self.held), None
        self._settle_key(self.run)
        view = self._view()
        for fault in self.run.faults[self.link]:
            self.answer = fault.act(view, self.run.settings)
            if self.answer is not None:
                return None
        return held

    def _view(self) -> RequestView:
        return RequestView(
            link=self.link,
            method=self.head.method,
            target=self.head.target,
            fingerprint=self.fingerprint,
            episode=self.episode,
            attempt=self.number,
            call=self.call,
            try_=self.try_,
        )

    # the record

    def record(self) -> None:
        """Writes the exchange into its run's history, once."""
        if self.run is None or self._recorded:
            return
        self._recorded = True
        if self.request_done:
            self._settle_key(self.run)
        self.run.write(_line(self, self.run))


def _line(turn: Turn, run: Run) -> str:
    """``windtunnel.events.Exchange`` as JSON, made by hand: every request pays for it."""
    fault = json.dumps(turn.answer.record) if turn.answer and turn.reply_done else "null"
    return (
        f'{{"start":{turn.started!r},"run":{_quote(run.run_id)},"episode":{_quote(turn.episode)}'
        f',"attempt":{turn.number},"link":"{turn.link}","method":{_quote(turn.head.method)}'
        f',"target":{_quote(turn.head.target)},"fingerprint":"{turn.fingerprint}"'
        f',"call":{turn.call},"try_":{turn.try_},"identity":"{turn.identity}"'
        f',"ms":{(turn.ended - turn.began) * 1000:.3f},"status":{turn.status or "null"}'
        f',"request_complete":{_BOOL[turn.request_done]},"reply_complete":{_BOOL[turn.reply_done]}'
        f',"forwarded":{_BOOL[turn.forwarded]},"request_bytes":{turn.request_bytes}'
        f',"reply_bytes":{turn.reply_bytes},"fault":{fault}'
        f',"error":{"null" if turn.error is None else _quote(turn.error)},"event":"exchange"}}'
    )
