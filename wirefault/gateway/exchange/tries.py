"""Tells the count of calls how each try ended, so that it knows which request is a retry."""

from __future__ import annotations

import time

from wirefault.dialects.mcp import CALL
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.outage import client_saw_failure


def note_client_gone(exchange: Exchange) -> None:
    """The client has left, or closed its side: its next request may come before this exchange ends."""
    attempt = exchange.origin.attempt
    if attempt is not None and exchange.counted is not None:
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
