"""A duplicate that is proven without an oracle, from the wire alone. Pure.

A declared write was executed twice, the second time after the reply to the first did not reach the caller,
and with no key by which the upstream could know that they are one. PUT and DELETE may be repeated. Anything
else that was done again may have been wanted: it is a finding, no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wirefault.history.events import AttemptArmed, Exchange
from wirefault.judging.oracle.wire_writes import IDEMPOTENT_METHODS, WireWrite, deliveries
from wirefault.judging.oracle.world import WorldJudgement
from wirefault.toxiproxy.planned import PlannedToxic


def proven_duplicates(exchanges: Iterable[Exchange], armed: Iterable[AttemptArmed]) -> WorldJudgement:
    """``duplicated`` if there is any, else ``not_applicable``."""
    toxics = [(attempt.attempt, toxic) for attempt in armed for toxic in attempt.toxics]
    for earlier, later in _pairs(exchanges):
        if not _reached_caller(earlier, later, toxics) and not _share_key(earlier.exchange, later.exchange):
            why = f"{later.name} executed again after the reply to the first had not reached the caller"
            return WorldJudgement("duplicated", why, repeated=(earlier.row, later.row))
    return WorldJudgement("not_applicable")


def _pairs(exchanges: Iterable[Exchange]) -> Iterator[tuple[WireWrite, WireWrite]]:
    """Executed writes of the same, each with those after it."""
    same: dict[tuple[str, str, str], list[WireWrite]] = {}
    for exchange in sorted(exchanges, key=lambda exchange: exchange.start):
        for write in deliveries(exchange):
            if write.fate == "executed" and exchange.method not in IDEMPOTENT_METHODS:
                before = same.setdefault((exchange.link, exchange.method, exchange.fingerprint), [])
                yield from ((earlier, write) for earlier in before)
                before.append(write)


def _share_key(earlier: Exchange, later: Exchange) -> bool:
    return bool(earlier.key) and earlier.key == later.key


def _reached_caller(earlier: WireWrite, later: WireWrite, toxics: Sequence[tuple[int, PlannedToxic]]) -> bool:
    """Whether the caller may have got the upstream's reply, as far as can be known."""
    exchange = earlier.exchange
    if exchange is later.exchange:  # a fault repeated it, and threw the first reply away
        return False
    passed_on = exchange.reply_complete and not exchange.client_left and exchange.upstream_status is None
    swallowed = any(
        (attempt, toxic.link) == (exchange.attempt, exchange.link) and _swallows(toxic, exchange)
        for attempt, toxic in toxics
    )
    return passed_on and not swallowed


def _swallows(toxic: PlannedToxic, exchange: Exchange) -> bool:
    """Whether the toxic certainly keeps the reply from the caller."""
    if toxic.stream != "downstream" or not toxic.lasts_attempt:
        return False
    limit = toxic.attributes.get("bytes", 0)
    return toxic.kind == "timeout" or (toxic.kind == "limit_data" and limit < exchange.reply_bytes)
