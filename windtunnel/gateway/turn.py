"""One request in progress: who sent it, how far it and its reply came, and the record of it."""

from __future__ import annotations

import json
import time
from typing import Literal

from windtunnel.baggage import Identity, parse_baggage
from windtunnel.catalog import MODEL_LINK
from windtunnel.faults import Reply, RequestView
from windtunnel.gateway.framing import Body, ChunkedBody, SizedBody
from windtunnel.gateway.heads import RequestHead
from windtunnel.gateway.lane import Attempt, Run
from windtunnel.schedule import fingerprint

MAX_FINGERPRINTED = 256 * 1024
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Turn:
    """A request and its reply on one client connection.

    Its bytes are counted as they crossed the client's side, header blocks included.
    """

    __slots__ = (
        "answer",
        "attempt",
        "began",
        "body",
        "call",
        "ended",
        "episode",
        "error",
        "fault",
        "fingerprint",
        "forwarded",
        "head",
        "held",
        "identity",
        "keep_alive",
        "keyed",
        "link",
        "number",
        "payload",
        "payload_size",
        "recorded",
        "reply_bytes",
        "reply_done",
        "request_bytes",
        "request_done",
        "run",
        "started",
        "status",
        "swallow_continue",
        "try_",
    )

    def __init__(self, link: str, head: RequestHead, began: float) -> None:
        self.link = link
        self.head = head
        self.began = self.ended = began
        self.started = time.time() - (time.perf_counter() - began)
        self.payload: list[bytes] = []
        self.payload_size = 0
        self.body: Body
        if head.chunked:
            self.body = ChunkedBody(self._collect)
        else:
            self.body = SizedBody(head.length, self._collect)
        self.request_done = self.body.done
        self.request_bytes = head.size
        self.reply_bytes = 0
        self.reply_done = False
        self.keep_alive = head.keep_alive
        self.held: list[bytes] | None = None
        self.answer: Reply | None = None
        self.swallow_continue = False
        self.forwarded = False
        self.status: int | None = None
        self.error: str | None = None
        self.fault: dict[str, object] | None = None
        self.run: Run | None = None
        self.attempt: Attempt | None = None
        self.episode = ""
        self.number = 0
        self.identity: Literal["baggage", "counted", "mismatch"] = "counted"
        self.fingerprint = ""
        self.call = self.try_ = 0
        self.keyed = False
        self.recorded = False

    def _collect(self, data: bytes) -> None:
        """Keeps the first part of the body, for the fingerprint."""
        room = MAX_FINGERPRINTED - self.payload_size
        if room > 0 and data:
            self.payload.append(data[:room])
            self.payload_size += min(room, len(data))

    def identify(self, run: Run | None, attempt: Attempt | None) -> None:
        """Says whose request this is: the attempt's that its connection or lane has, refined by baggage."""
        sent = parse_baggage(self.head.baggage) if self.head.baggage_at else None
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

    def settle_key(self) -> None:
        """Fills in fingerprint, call and try, once the body (or its first 256 KiB) has come."""
        if self.run is None or self.keyed:
            return
        self.keyed = True
        if self.link != MODEL_LINK.name:
            head = self.head
            self.fingerprint = fingerprint(head.method, head.target, b"".join(self.payload))
        self.payload.clear()
        if not self.call and self.attempt is not None:
            self.call = self.attempt.count(self.link, self.fingerprint)
        self.try_ = self.try_ or 1

    def view(self) -> RequestView:
        return RequestView(
            self.link,
            self.head.method,
            self.head.target,
            self.fingerprint,
            self.episode,
            self.number,
            self.call,
            self.try_,
        )

    def record(self) -> None:
        """Writes the exchange into its run's history, once."""
        if self.run is None or self.recorded:
            return
        self.recorded = True
        self.run.write(_encode(self._event(self.run)))

    def _event(self, run: Run) -> dict[str, object]:
        """The fields of ``windtunnel.history.Exchange``, made by hand since every request pays for it."""
        return {
            "start": self.started,
            "run": run.run_id,
            "episode": self.episode,
            "attempt": self.number,
            "link": self.link,
            "method": self.head.method,
            "target": self.head.target,
            "fingerprint": self.fingerprint,
            "call": self.call,
            "try_": self.try_,
            "identity": self.identity,
            "ms": round((self.ended - self.began) * 1000, 3),
            "status": self.status,
            "request_complete": self.request_done,
            "reply_complete": self.reply_done,
            "forwarded": self.forwarded,
            "request_bytes": self.request_bytes,
            "reply_bytes": self.reply_bytes,
            "fault": self.fault,
            "error": self.error,
            "event": "exchange",
        }
