"""Measures of one episode, or of a turn of it, from its requests: a number within bounds. Pure.

The table of figures names them: ``of_one`` in ``figures.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from wirefault.experiments.episode_view import EpisodeView
from wirefault.experiments.expression import COMPARISONS, Bounds, Truth, exactly
from wirefault.history.events import Exchange
from wirefault.history.judged_events import Costs
from wirefault.judging.checker import CheckResult
from wirefault.judging.requests import Request
from wirefault.judging.usage import costs_of, may_have_unknown_tokens


@dataclass(frozen=True)
class Measured:
    """A number that one episode, or a turn of it, shows within bounds.

    ``gap`` says why it is not exact; ``evidence`` has the ids of the counted events.
    """

    low: float
    high: float
    evidence: tuple[str, ...] = ()
    gap: str = ""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.low, self.high)

    @property
    def text(self) -> str:
        """For people."""
        if self.low == self.high:
            return f"{self.low:g}"
        return f"{self.low:g} or more" if self.high == math.inf else f"{self.low:g} to {self.high:g}"

    def at_most(self, limit: float) -> Truth:
        """Whether it is certainly at most the limit."""
        return COMPARISONS["<="](self.bounds, exactly(limit))

    def at_least(self, limit: float) -> Truth:
        """Whether it is certainly at least the limit."""
        return COMPARISONS[">="](self.bounds, exactly(limit))


def figure_of(low: float, evidence: Iterable[str] = (), gap: str = "") -> Measured:
    """A figure; only a lower bound if there is a gap."""
    return Measured(low, math.inf if gap else low, tuple(dict.fromkeys(evidence)), gap)


def total(figures: Iterable[Measured], others: str = "") -> Measured:
    """The sum. ``others`` says why further, unknown figures belong to it; empty if none do."""
    summed = list(figures)
    high = math.inf if others else sum(figure.high for figure in summed)
    evidence = dict.fromkeys(id for figure in summed for id in figure.evidence)
    gap = next(filter(None, (others, *(figure.gap for figure in summed))), "")
    return Measured(sum(figure.low for figure in summed), high, tuple(evidence), gap)


OfEpisode = CheckResult | tuple[Measured, ...] | None
"""An assertion's result in an episode, or the episode's part of a sum over the arm."""

NEEDS_REQUESTS = "all requests through the lab: if connections bypass it, the figure is a lower bound"
NEEDS_REPLIES = (
    f"whether each reply reached the subject, which may be unknown after a toxic; {NEEDS_REQUESTS}"
)
NEEDS_USAGE = "the usage in each reply of the model: without it the figure is a lower bound"
TokenCount = Callable[[Exchange | Costs], int | None]
ALL_TOKENS: TokenCount = attrgetter("tokens")


def counted_tokens(view: EpisodeView, count: TokenCount) -> tuple[list[tuple[Request, int]], str]:
    """The model requests with their tokens, and why the list may be incomplete; else empty.

    Raises ``NotRecorded`` if no link leads to a model.
    """
    known: list[tuple[Request, int]] = []
    unknown = 0
    for request in view.model_requests:
        if request.exchange and request.exchange.replay == "hit":
            continue  # a recorded reply cost nothing
        tokens = count(request.exchange) if request.exchange else None
        if tokens is not None:
            known.append((request, tokens))
        unknown += may_have_unknown_tokens(request.exchange)
    if unknown:
        return known, f"{unknown} replies do not report their tokens"
    return known, view.unseen(view.trace.links.model_names)


def ids_of(requests: Iterable[Request]) -> list[str]:
    """The ids of the events that show these requests."""
    return [id for request in requests for id in request.ids]


def token_sum(count: TokenCount, view: EpisodeView, *_: str) -> Measured:
    known, gap = counted_tokens(view, count)
    costs = view.judgement.costs
    if view.turn is not None and view.turns > 1:
        costs = costs_of([request.exchange for request in view.requests if request.exchange], {})
    return figure_of(count(costs) or 0, ids_of(request for request, _ in known), gap)


def largest_call(view: EpisodeView, *_: str) -> Measured:
    known, gap = counted_tokens(view, ALL_TOKENS)
    largest = max((tokens for _, tokens in known), default=0)
    return figure_of(largest, ids_of(request for request, tokens in known if tokens == largest), gap)


def seconds(view: EpisodeView, *_: str) -> Measured:
    return Measured(view.seconds, view.seconds, (view.last_end.id,))


def model_calls(view: EpisodeView, *_: str) -> Measured:
    requests = view.model_requests
    return figure_of(len(requests), ids_of(requests), view.unseen(view.trace.links.model_names))


def failed_calls(view: EpisodeView, link: str, _: str) -> Measured:
    requests = [request for request in view.requests if link in ("", request.link_name)]
    failed = [request for request in requests if request.failed]
    unclear = sum(request.failed is None for request in requests)
    unseen = view.unseen([link] if link else ())
    figure = figure_of(len(failed), ids_of(failed), unseen)
    if not unclear or unseen:
        return figure
    gap = f"whether {unclear} replies reached the subject is unknown"
    return Measured(len(failed), len(failed) + unclear, figure.evidence, gap)


def faults_delivered(view: EpisodeView, link: str, kind: str) -> Measured:
    faults = [fault for fault in view.faults if kind in ("", fault.kind) and link in ("", fault.link)]
    sure = sum(fault.delivered is True for fault in faults)
    unclear = sum(fault.delivered is None for fault in faults)
    gap = f"whether {unclear} faults were delivered is unknown" if unclear else ""
    faulted = [
        request
        for request in view.requests
        if request.fault_kinds and kind in ("", *request.fault_kinds) and link in ("", request.link_name)
    ]
    return Measured(sure, sure + unclear, tuple(ids_of(faulted)), gap)
