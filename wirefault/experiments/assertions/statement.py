"""Statements about one episode, in the language of hypotheses: ``tokens <= 50000 and model_calls <= 4``.

The measures here are of an episode or a turn; those of an arm are in ``figures.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.errors import nearest
from wirefault.experiments.assertions.assertion import Figure, SummableLimit, figure_of
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.expression import Expression, ExpressionError, parse_expression
from wirefault.history.events import Exchange
from wirefault.judging.checker import CheckResult
from wirefault.judging.requests import Request

NEEDS_REQUESTS = "all requests through the lab: if connections bypass it, the figure is a lower bound"
NEEDS_USAGE = "the usage in each reply of the model: without it the figure is a lower bound"
TokenCount = Callable[[Exchange], int | None]


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
        elif request.executed != "no":
            unknown += 1
    if unknown:
        return known, f"{unknown} replies do not report their tokens"
    return known, view.unseen(view.trace.links.model_names)


def ids_of(requests: Iterable[Request]) -> list[str]:
    """The ids of the events that show these requests."""
    return [id for request in requests for id in request.ids]


def _token_sum(view: EpisodeView, count: TokenCount) -> Figure:
    known, gap = counted_tokens(view, count)
    return figure_of(sum(tokens for _, tokens in known), ids_of(request for request, _ in known), gap)


def _largest_call(view: EpisodeView) -> Figure:
    known, gap = counted_tokens(view, ALL_TOKENS)
    largest = max((tokens for _, tokens in known), default=0)
    return figure_of(largest, ids_of(request for request, tokens in known if tokens == largest), gap)


def _seconds(view: EpisodeView) -> Figure:
    return Figure(view.seconds, view.seconds, (view.last_end.id,))


def _model_calls(view: EpisodeView) -> Figure:
    requests = view.model_requests
    return figure_of(len(requests), ids_of(requests), view.unseen(view.trace.links.model_names))


def _failed_calls(view: EpisodeView, link: str) -> Figure:
    requests = [request for request in view.requests if link in ("", request.link_name)]
    failed = [request for request in requests if request.failed]
    unclear = sum(request.failed is None for request in requests)
    unseen = view.unseen([link] if link else ())
    figure = figure_of(len(failed), ids_of(failed), unseen)
    if not unclear or unseen:
        return figure
    gap = f"whether {unclear} replies reached the subject is unknown"
    return Figure(len(failed), len(failed) + unclear, figure.evidence, gap)


def _faults_delivered(view: EpisodeView, link: str, kind: str) -> Figure:
    faults = [fault for fault in view.faults if kind in ("", fault.kind) and link in ("", fault.link)]
    sure = sum(fault.delivered is True for fault in faults)
    unclear = sum(fault.delivered is None for fault in faults)
    gap = f"whether {unclear} faults were delivered is unknown" if unclear else ""
    faulted = [
        request
        for request in view.requests
        if request.fault_kinds and kind in ("", *request.fault_kinds) and link in ("", request.link_name)
    ]
    return Figure(sure, sure + unclear, tuple(ids_of(faulted)), gap)


_Measured = Callable[[EpisodeView, str, str], Figure]
# name: what it measures, what it needs, how; link and kind restrict the last two
_MEASURES: Mapping[str, tuple[str, str, _Measured]] = {
    "seconds": ("time of all attempts", "the end of the attempt", lambda view, *_: _seconds(view)),
    "model_calls": (
        "requests to models, with an SDK's retries",
        f"a link to a model in the wiring; {NEEDS_REQUESTS}",
        lambda view, *_: _model_calls(view),
    ),
    "failed_calls": (
        "requests to models and tools that failed for the subject: an error, or no whole reply",
        f"whether each reply reached the subject, which may be unknown after a toxic; {NEEDS_REQUESTS}",
        lambda view, link, _: _failed_calls(view, link),
    ),
    "tokens": ("tokens in and out", NEEDS_USAGE, lambda view, *_: _token_sum(view, ALL_TOKENS)),
    "tokens_in": (
        "tokens of the requests to models",
        NEEDS_USAGE,
        lambda v, *_: _token_sum(v, attrgetter("tokens_in")),
    ),
    "tokens_out": (
        "tokens of the models' replies",
        NEEDS_USAGE,
        lambda v, *_: _token_sum(v, attrgetter("tokens_out")),
    ),
    "call_tokens": (
        "tokens in and out of the largest model call",
        NEEDS_USAGE,
        lambda view, *_: _largest_call(view),
    ),
    "faults_delivered": (
        "faults that their target side observed",
        "for toxics, a subject that records its tries, or the ingress",
        _faults_delivered,
    ),
}
_BY_LINK = ("failed_calls", "faults_delivered")


def episode_measure_rows() -> list[tuple[str, str, str]]:
    """Each measure of an episode: name, meaning, what it needs."""
    return [(name, meaning, needs) for name, (meaning, needs, _) in _MEASURES.items()]


def _checked_statement(text: str) -> str:
    for name in _parsed(text).names:
        if name not in _MEASURES:
            raise ValueError(f"unknown measure {name}{nearest(name, _MEASURES)}")
    return text


def _parsed(text: str) -> Expression:
    try:
        return parse_expression(text)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


class Statement(SummableLimit):
    """The statement is true. A text with a comparison is a statement too: `tokens <= 50000`."""

    name = "statement"
    main = "text"
    needs = "see the measures below"
    link_keys = ("link",)

    text: Annotated[str, AfterValidator(_checked_statement)] = Field(
        description="a comparison of the measures below"
    )
    link: str = Field("", description="for failed_calls and faults_delivered: on this link only")
    kind: str = Field("", description="for faults_delivered: of this kind only, such as rate_limit")

    @property
    def names(self) -> tuple[str, ...]:
        """The measures in the statement."""
        return _parsed(self.text).names

    @property
    def expected(self) -> str:
        return self.text

    def figures(self, view: EpisodeView) -> tuple[Figure, ...]:
        return tuple(_MEASURES[name][2](view, self.link, self.kind) for name in self.names)

    def judged(self, figures: Sequence[Figure]) -> CheckResult:
        named = dict(zip(self.names, figures, strict=True))
        passed = _parsed(self.text).holds({name: figure.bounds for name, figure in named.items()})
        gaps = dict.fromkeys(figure.gap for figure in figures if figure.gap)
        return CheckResult(
            passed=passed,
            measured=", ".join(f"{name} {figure.text}" for name, figure in named.items()),
            message="; ".join(gaps) if passed is None else "",
            evidence=tuple(dict.fromkeys(id for figure in figures for id in figure.evidence)),
        )

    @model_validator(mode="after")
    def _fits_its_measures(self) -> Statement:
        if self.turn is not None and "faults_delivered" in self.names:
            raise ValueError("turn: faults are counted in whole episodes")
        if self.over == "arm" and "call_tokens" in self.names:
            raise ValueError("over: arm sums, and call_tokens is of single calls")
        if self.link and not set(self.names) & set(_BY_LINK):
            raise ValueError(f"link: restricts {' and '.join(_BY_LINK)} only")
        if self.kind and "faults_delivered" not in self.names:
            raise ValueError("kind: restricts faults_delivered only")
        return self
