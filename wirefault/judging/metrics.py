"""Figures of an episode's requests: calls, tokens, first token times, conversation, faults. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wirefault.history.events import Event, Exchange
from wirefault.history.reader import Tail, with_ids
from wirefault.judging.requests import Request
from wirefault.judging.same import calls_in
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import costs_of


@dataclass(frozen=True)
class FaultInCall:
    """A fault that a request met."""

    link: str
    fault: str
    injected: bool


@dataclass(frozen=True)
class Metrics:
    """Figures of the requests so far. A figure that a reply does not report is not in its list or sum."""

    trace: EpisodeTrace

    @property
    def requests(self) -> Sequence[Request]:
        return self.trace.requests

    @cached_property
    def history(self) -> Sequence[Exchange]:
        """All requests on links, in the order in which they began."""
        exchanges = [request.exchange for request in self.requests if request.exchange is not None]
        return sorted(exchanges, key=lambda exchange: exchange.start)

    @cached_property
    def model_calls(self) -> Sequence[Exchange]:
        """The requests that asked a model, including retries."""
        return [exchange for exchange in self.history if exchange.of_model]

    @property
    def calls(self) -> int:
        """Number of requests on all links."""
        return len(self.history)

    @property
    def retries(self) -> int:
        """Number of requests after the first of each call: by an SDK, the code, a step, the model."""
        return sum(len(tries) - 1 for tries in calls_in(self.trace.rows))

    @property
    def failed_calls(self) -> int:
        """Number of requests without a whole reply, or with an error: a status, or an MCP tool's."""
        return sum(bool(request.failed) for request in self.requests)

    @property
    def calls_by_link(self) -> dict[str, int]:
        """Number of requests on each link."""
        return dict(Counter(exchange.link for exchange in self.history))

    @property
    def latencies_ms(self) -> list[float]:
        """Duration of each request."""
        return [exchange.ms for exchange in self.history]

    @property
    def tokens_in(self) -> int | None:
        """Tokens of the model's requests, as its replies report them; None if none does."""
        return costs_of(self.history, {}).tokens_in

    @property
    def tokens_out(self) -> int | None:
        """Tokens of the model's replies, as they report them; None if none does."""
        return costs_of(self.history, {}).tokens_out

    @property
    def first_token_ms(self) -> list[float]:
        """Time until the first token of each stream."""
        return [e.first_token_ms for e in self.model_calls if e.first_token_ms is not None]

    @property
    def conversation(self) -> list[dict[str, object]]:
        """The messages of the last model request that is kept as JSON; empty if none is."""
        for exchange in reversed(self.model_calls):
            try:
                messages = json.loads(exchange.request_body or "").get("messages")
            except (ValueError, AttributeError):  # cut off, or another API
                continue
            if isinstance(messages, list):
                return messages
        return []

    @property
    def faults(self) -> list[FaultInCall]:
        """The faults that requests met, in their order."""
        return [
            FaultInCall(exchange.link, fault.kind, injected=fault.injected)
            for exchange in self.history
            for fault in exchange.faults
        ]


def metrics_so_far(gateway: Path, episode: str, attempt: int) -> Metrics:
    """The metrics of an attempt in progress, from the gateway's history."""
    return metrics_of(Tail(gateway).read(), episode, attempt)


def metrics_of(events: Iterable[Event], episode: str, attempt: int | None = None) -> Metrics:
    """The metrics of one episode, or of one attempt at it."""
    exchanges = (
        (id, event)
        for id, event in with_ids(events)
        if isinstance(event, Exchange) and event.episode == episode and attempt in (None, event.attempt)
    )
    return Metrics(EpisodeTrace(episode, list(exchanges)))
