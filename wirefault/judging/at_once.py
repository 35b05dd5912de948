"""Which requests of an attempt were made at once, so that the order in which they came is chance. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from wirefault.dialects.mcp import MCP
from wirefault.history.events import Event, Exchange, ToolCalled

_CallKey = tuple[str, int, str, str, int]


class CallsAtOnce:
    """Two requests were made at once if they were in progress at the same time, or if the model asked for
    both in one reply, as the subject's own record has it: what is answered quickly is over before the other
    one comes, and might as well have come after it.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._replies = {_key(event): event.reply for event in events if isinstance(event, ToolCalled)}

    def are(self, exchange: Exchange, other: Exchange) -> bool:
        """Whether these two of one attempt were."""
        if exchange.start < _end(other) and other.start < _end(exchange):
            return True
        reply = self._reply(exchange)
        return reply is not None and reply == self._reply(other) and _key(exchange) != _key(other)

    def among(self, exchanges: Iterable[Exchange]) -> list[Exchange]:
        """Those of one attempt that were made at once with another of them, the tries of a call aside that
        came after one another."""
        ordered = sorted(exchanges, key=lambda exchange: exchange.start)
        ends = accumulate((_end(exchange) for exchange in ordered), max)
        after = {id(later) for later, end in zip(ordered[1:], ends, strict=False) if later.start < end}
        before = {id(earlier) for earlier, later in pairwise(ordered) if later.start < _end(earlier)}
        calls: defaultdict[int | None, set[_CallKey]] = defaultdict(set)
        for exchange in ordered:
            calls[self._reply(exchange)].add(_key(exchange))
        asked = {reply for reply, keys in calls.items() if reply is not None and len(keys) > 1}
        return [e for e in ordered if id(e) in after | before or self._reply(e) in asked]

    def _reply(self, exchange: Exchange) -> int | None:
        """The model's reply that asked for the call, None where that is not on record."""
        return self._replies.get(_key(exchange))


def calls_in(events: Iterable[Event]) -> Iterator[Exchange]:
    """The requests whose order may matter: of MCP the calls of tools, since faults strike these, and a stream
    of what the server says is open beside them all."""
    for event in events:
        if isinstance(event, Exchange) and (event.dialect != MCP.name or event.tool):
            yield event


def _key(event: Exchange | ToolCalled) -> _CallKey:
    return event.episode, event.attempt, event.link, event.fingerprint, event.call


def _end(exchange: Exchange) -> float:
    return exchange.start + exchange.ms / 1000
