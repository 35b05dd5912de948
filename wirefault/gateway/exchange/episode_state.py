"""Notes what later faults of an episode depend on: how its tries ended, and whether a write was carried out.

The count of calls recognises retries by the end of the try before. Triggers ``after: {write: executed}`` wait
for a write.
"""

from __future__ import annotations

import time

from wirefault.dialects.fate import fate_of
from wirefault.dialects.mcp import CALL, LIST
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.decision import is_write
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.outage import client_saw_failure, has_answer
from wirefault.wiring.write_requests import read_only_tools


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


def note_write(exchange: Exchange, status: int) -> None:
    """Note the write if the upstream, which answered with that status, has carried one out.

    Call it for requests whose method is not safe.
    """
    run, listener = exchange.origin.run, exchange.listener
    if run is None:
        return
    if exchange.request_done and not exchange.keyed:
        exchange.settle_key()
    if exchange.is_model:
        return
    server_reply = exchange.reply.server_reply if exchange.message is not None else None
    if server_reply is not None and exchange.message == LIST:
        run.read_only_tools[listener.name] = read_only_tools(server_reply.body.decode("utf-8", "replace"))
        return
    if exchange.origin.episode in run.episodes_with_write:
        return
    tool_answer = server_reply.tool_answer if server_reply is not None and exchange.tool else None
    if fate_of(status, "" if exchange.tool and tool_answer is None else tool_answer) != "executed":
        return
    if is_write(exchange):
        run.episodes_with_write.add(exchange.origin.episode)
