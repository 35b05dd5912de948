"""What the model was told by tools: as the subject recorded it, else by the bodies that were kept. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wirefault.dialects.conversation import read_conversation, text_of
from wirefault.dialects.http import Request
from wirefault.history.events import EpisodeStarted, Event, Exchange, FaultMet, ToolCalled


@dataclass(frozen=True)
class ToldResult:
    """A result of a tool. ``changes``: the faults that have changed it on its way."""

    text: str
    changes: tuple[FaultMet, ...] = ()


@dataclass(frozen=True)
class Told:
    """``results``: those of tools. ``repeated``: what of them stands in the requests to the model, those of
    tools on no link among them. ``whole``: the model was told nothing else by any tool."""

    results: Sequence[ToldResult]
    repeated: Sequence[str] = ()
    whole: bool = True


def told_by_tools(events: Sequence[Event]) -> Told:
    """All that an episode's tools told."""
    calls = [event for event in events if isinstance(event, ToolCalled)]
    exchanges = [event for event in events if isinstance(event, Exchange)]
    if calls or not any(isinstance(event, EpisodeStarted) and not event.recorded for event in events):
        return Told(list(_recorded(calls, exchanges)))
    return _on_the_wire(exchanges)


def _recorded(calls: Iterable[ToolCalled], exchanges: Iterable[Exchange]) -> Iterator[ToldResult]:
    """A call's result is that of its last try."""
    last_tries = {
        (exchange.attempt, exchange.link, exchange.fingerprint, exchange.call): exchange
        for exchange in sorted(exchanges, key=lambda exchange: exchange.try_)
    }
    for call in calls:
        if call.ok:
            exchange = last_tries.get((call.attempt, call.link, call.fingerprint, call.call))
            yield ToldResult(readable_result(call.result), _changes(exchange) if exchange else ())


def _on_the_wire(exchanges: Sequence[Exchange]) -> Told:
    of_models = [exchange for exchange in exchanges if exchange.of_model and exchange.method == "POST"]
    replies = [e for e in exchanges if not e.of_model and e.status is not None and e.status < 400]
    asked = [_tool_texts(exchange) for exchange in of_models]
    kept = all(reply.reply_body is not None and not reply.reply_cut for reply in replies)
    return Told(
        [ToldResult(readable_result(reply.reply_body or ""), _changes(reply)) for reply in replies],
        [readable_result(text) for texts in asked for text in texts or ()],
        whole=kept and bool(asked) and None not in asked,
    )


def _tool_texts(exchange: Exchange) -> list[str] | None:
    """The tools' results in a request to the model; None where they cannot be read."""
    if exchange.request_body is None or exchange.request_cut:
        return None
    request = Request((), exchange.request_body.encode(), exchange.method, exchange.target)
    try:
        conversation = read_conversation(request, exchange.dialect)
    except ValueError:
        return None
    return [text_of(message) for _, message in conversation.indexed("tool")]


def _changes(exchange: Exchange) -> tuple[FaultMet, ...]:
    return tuple(met for met in exchange.faults if met.injected and met.content)


def readable_result(result: str) -> str:
    """A tool's result without the escapes that JSON may hide its letters behind."""
    if "\\u" not in result:
        return result
    try:
        return json.dumps(json.loads(result), ensure_ascii=False)
    except ValueError:
        return result
