"""Reports to the count of calls how each try ended, so that it recognises retries."""

from __future__ import annotations

import time

from wirefault.dialects.mcp import CALL
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.outage import client_saw_failure, has_answer


def note_client_gone(exchange: Exchange, reader: MessageReader | None) -> None:
    """The client has left, or closed its side: its next request may come before this exchange ends.

    ``reader``: as ``has_answer`` takes it.
    """
    attempt = exchange.origin.attempt
    if attempt is None:
        return
    exchange.reply.answered_leaver = has_answer(exchange, reader)
    if exchange.counted is not None and not exchange.reply.answered_leaver:
        attempt.calls.fail(exchange.counted, time.perf_counter())


def note_end_of_try(exchange: Exchange) -> None:
    """The exchange is over."""
    attempt, counted = exchange.origin.attempt, exchange.counted
    if attempt is None:
        return
    if counted is None:
        if exchange.is_model:
            if not client_saw_failure(exchange):
                attempt.calls.note_model_reply(exchange.began)
        elif exchange.keyed and exchange.message in (None, CALL):
            attempt.calls.note_other(exchange.listener.name, exchange.fingerprint, exchange.began)
        return
    if client_saw_failure(exchange):
        status = exchange.reply.status or 0
        attempt.calls.fail(counted, time.perf_counter(), was_refused=400 <= status < 500)
        return
    attempt.calls.answer(counted)
    if exchange.is_model:
        attempt.calls.note_model_reply(exchange.began)
