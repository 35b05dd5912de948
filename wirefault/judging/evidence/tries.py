"""The tries of an episode as their callers recorded them, matched with the gateway's record of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wirefault.core.caller_errors import error_kind, error_word
from wirefault.history.events import (
    LAB_MODEL,
    AttemptArmed,
    ConnectionEnded,
    EpisodeStarted,
    Event,
    Exchange,
    FaultMet,
    ModelCall,
    ToolTry,
)
from wirefault.judging.evidence.record import TryEvidence, Unexplained
from wirefault.judging.evidence.toxic_times import ToxicTime, ToxicTimes, handshake_crossed
from wirefault.toxiproxy.toxics.observed import ObservedTry

_Key = tuple[int, str, str, int, int]


@dataclass(frozen=True)
class RecordedTry:
    """One try as its caller recorded it, at a tool or at the model, with the gateway's record of it.

    ``tls``: what is known of its connection where the gateway has no record.
    """

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    start: float
    ms: float
    timeout_ms: float
    status: int | None
    error: str | None
    route: str
    digest: str
    exchange: Exchange | None
    waited: bool = False
    tls: Literal["", "fresh", "kept"] = ""

    @property
    def end(self) -> float:
        """In seconds since the epoch, as ``start``."""
        return self.start + self.ms / 1000

    @property
    def lost(self) -> bool:
        """No valid reply came; any HTTP status is one."""
        return self.error is not None and not self.error.startswith("http_")

    @property
    def left_unread(self) -> bool:
        """It failed at nothing and noted no body: it left an event stream in the midst."""
        return self.status is not None and self.error is None and not self.digest

    @property
    def gave_up(self) -> bool:
        """It ended by the caller's own timeout."""
        return error_kind(self.error) == "timeout"

    @property
    def patience_ms(self) -> float:
        """The client's timeout: how long it waited where it gave up, else as it was set (0: none known)."""
        return self.ms if self.gave_up else self.timeout_ms

    @property
    def fault_delay_ms(self) -> float:
        """By how much the gateway's faults delayed it, as measured."""
        faults = self.exchange.faults if self.exchange else []
        return sum(float(met.shows.get("delay_ms", 0.0)) for met in faults if met.injected and met.shows)

    def left_before(self, exchange: Exchange, met: FaultMet) -> bool:
        """Whether the client was gone when the fault began to act."""
        acted_s = exchange.start + (met.acted_ms or 0.0) / 1000
        return met.acted_ms is not None and self.start + self.ms / 1000 < acted_s

    def got(self, reply: Mapping[str, Any]) -> bool:
        """Whether it got the reply of that ``status``, and of that ``digest`` as far as it noted one."""
        return self.status == reply.get("status", 0) and self.digest in ("", reply.get("digest", ""))

    @property
    def _gateway_ms(self) -> float:
        """How long the gateway had it while the caller waited."""
        if self.exchange is None:
            return 0.0
        begun_ms = max(self.exchange.start - self.start, 0.0) * 1000
        return min(self.exchange.ms, max(self.ms - begun_ms, 0.0))

    def _had_whole_request(self, exchange: Exchange) -> bool:
        """Whether the gateway had it while the caller waited: what is held back may arrive later."""
        whole_at = exchange.start + exchange.request_ms / 1000
        return exchange.request_complete and whole_at <= self.start + self.ms / 1000

    @property
    def as_observed(self) -> ObservedTry:
        """What the signature of a toxic is held against."""
        exchange = self.exchange
        return ObservedTry(
            client_ms=self.ms,
            client_failed=self.lost,
            client_error=error_word(self.error) if self.lost else None,
            client_timeout_ms=self.patience_ms,
            gateway_ms=self._gateway_ms,
            gateway_complete_request=bool(exchange and self._had_whole_request(exchange)),
            gateway_complete_reply=bool(exchange and exchange.reply_complete),
            reply_bytes=exchange.reply_bytes if exchange else 0,
            client_waited=self.waited,
            gateway_client_left=bool(exchange and exchange.client_left),
            tls=exchange.tls if exchange else self.tls,
        )

    def evidence(self, shows: bool, explains: bool) -> TryEvidence:
        return TryEvidence(self.fingerprint, self.call, self.try_, self.error, shows, explains)

    def unexplained(self) -> Unexplained:
        error = self.error or ""
        return Unexplained(self.attempt, self.link, self.fingerprint, self.call, self.try_, error, self.route)


@dataclass
class EpisodeRecords:
    """The records of one episode: what was armed, and the callers' tries, matched with the exchanges.

    ``recorded``: the callers keep a record of their tries.
    """

    armed: list[AttemptArmed] = field(default_factory=list)
    tries: list[RecordedTry] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    toxic_times: ToxicTimes = field(default_factory=ToxicTimes)
    connections: list[ConnectionEnded] = field(default_factory=list)
    recorded: bool = True

    def crossing(self, attempt: int, link: str) -> list[RecordedTry]:
        """The tries of that attempt that went through the link's proxy."""
        there = [tried for tried in self.tries if (tried.attempt, tried.link) == (attempt, link)]
        return [tried for tried in there if tried.route == "proxy"]

    def connections_in(self, attempt: int, link: str, times: Iterable[ToxicTime]) -> list[ConnectionEnded]:
        """The intercepted connections of that attempt through the link's proxy that were there then."""
        there = [c for c in self.connections if (c.attempt, c.link) == (attempt, link)]
        return [c for c in there if any(time.meets(c.opened, c.t) for time in times)]


def records_of(events: Sequence[Event]) -> EpisodeRecords:
    """The records of one episode's events, which may come in any order."""
    exchanges = [event for event in events if isinstance(event, Exchange)]
    by_try = {(e.attempt, e.link, _fingerprint(e), e.call, e.try_): e for e in exchanges}
    records = EpisodeRecords([e for e in events if isinstance(e, AttemptArmed)], exchanges=exchanges)
    records.toxic_times = ToxicTimes(events)
    records.connections = [event for event in events if isinstance(event, ConnectionEnded)]
    records.recorded = all(event.recorded for event in events if isinstance(event, EpisodeStarted))
    for event in events:
        if isinstance(event, (ToolTry, ModelCall)):
            records.tries.append(_recorded(event, by_try, records.connections))
    records.armed.sort(key=lambda armed: armed.attempt)
    records.tries.sort(key=repeatable_order)
    return records


def _recorded(
    event: ToolTry | ModelCall, by_try: Mapping[_Key, Exchange], connections: Iterable[ConnectionEnded]
) -> RecordedTry:
    if isinstance(event, ToolTry):
        key = (event.attempt, event.link, event.fingerprint, event.call, event.try_)
        start, timeout_ms, route = event.start, event.timeout_ms, str(event.route)
    else:
        key = (event.attempt, LAB_MODEL, "", event.ordinal, event.try_)
        start, timeout_ms, route = event.t - event.ms / 1000, 0.0, "proxy"
    there = (c for c in connections if (c.attempt, c.link) == key[:2])
    secure = handshake_crossed(there, start, start + event.ms / 1000)
    return RecordedTry(
        *key,
        start=start,
        ms=event.ms,
        timeout_ms=timeout_ms,
        status=event.status,
        error=event.error,
        route=route,
        digest=event.reply_digest,
        exchange=by_try.get(key) if route == "proxy" else None,
        waited=isinstance(event, ToolTry) and event.refused > 0,
        tls="fresh" if secure else "",
    )


def repeatable_order(tried: Exchange | RecordedTry) -> _Key:
    """A key for sorting: the same in every run of one seed, whatever came first under parallel calls."""
    return tried.attempt, tried.link, tried.fingerprint, tried.call, tried.try_


def _fingerprint(exchange: Exchange) -> str:
    """None on the model link: its body is not hashed, so the ordinal alone is the key there."""
    return "" if exchange.of_model else exchange.fingerprint
