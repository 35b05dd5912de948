"""Assertions on the tokens that models say they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from wirefault.experiments.assertions.assertion import Limit, SummableLimit
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.assertions.figure import Figure, figure_of
from wirefault.experiments.bounds import Truth
from wirefault.experiments.quantities import Duration
from wirefault.history.events import Exchange
from wirefault.judging.requests import Request

_NEEDS_USAGE = "the usage in each reply of the model: without it the figure is a lower bound"
_TokenCount = Callable[[Exchange], int | None]


def _tokens_in(exchange: Exchange) -> int | None:
    return exchange.tokens_in


def _tokens_out(exchange: Exchange) -> int | None:
    return exchange.tokens_out


def _all_tokens(exchange: Exchange) -> int | None:
    if exchange.tokens_in is None or exchange.tokens_out is None:
        return None
    return exchange.tokens_in + exchange.tokens_out


class MaxTokens(SummableLimit):
    """At most so many tokens, in and out together, in all requests to models or in each single one."""

    name: ClassVar[str] = "max_tokens"
    main = "count"
    needs = _NEEDS_USAGE
    counted: ClassVar[_TokenCount] = staticmethod(_all_tokens)

    count: int = Field(ge=0)
    per: Literal["episode", "call"] = Field("episode", description="all requests together, or each by itself")

    @property
    def expected(self) -> str:
        return f"at most {self.count} tokens{' a call' if self.per == 'call' else ''}"

    def figure(self, view: EpisodeView) -> Figure:
        known, untold = _told(view.model_requests, type(self).counted)
        gap = _gap(view, untold)
        if self.per == "episode":
            return figure_of(sum(count for _, count in known), _ids(known), gap)
        largest = max((count for _, count in known), default=0)
        return figure_of(largest, _ids([pair for pair in known if pair[1] == largest]), gap)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)

    @model_validator(mode="after")
    def _calls_are_not_summed(self) -> MaxTokens:
        if self.per == "call" and self.over == "arm":
            raise ValueError("per: call is of each call, and goes with no `over: arm`")
        return self


class MaxTokensIn(MaxTokens):
    """The same of the tokens that the model was given."""

    name: ClassVar[str] = "max_tokens_in"
    counted: ClassVar[_TokenCount] = staticmethod(_tokens_in)


class MaxTokensOut(MaxTokens):
    """The same of the tokens that it wrote."""

    name: ClassVar[str] = "max_tokens_out"
    counted: ClassVar[_TokenCount] = staticmethod(_tokens_out)


class NoTokenBurst(Limit):
    """In no span of that length are more tokens taken, each call's counted when its reply was there."""

    name = "no_token_burst"
    needs = _NEEDS_USAGE

    count: int = Field(ge=1, description="tokens in and out")
    within: Duration = Field(description="the span: seconds, or a text such as 10 s")

    @property
    def expected(self) -> str:
        return f"at most {self.count} tokens in any {self.within:g} s"

    def figure(self, view: EpisodeView) -> Figure:
        known, untold = _told(view.model_requests, _all_tokens)
        known.sort(key=lambda pair: pair[0].end)
        spans = [
            [pair for pair in known[place:] if pair[0].end - first.end <= self.within]
            for place, (first, _) in enumerate(known)
        ]
        largest = max(spans, key=_sum, default=[])
        return figure_of(_sum(largest), _ids(largest), _gap(view, untold))

    def holds(self, figure: Figure) -> Truth:
        return figure.at_most(self.count)


def _told(requests: Sequence[Request], counted: _TokenCount) -> tuple[list[tuple[Request, int]], int]:
    """The requests whose usage is known, with it, and how many others a model has answered."""
    known: list[tuple[Request, int]] = []
    untold = 0
    for sent in requests:
        count = counted(sent.exchange) if sent.exchange else None
        if sent.exchange is not None and count is not None:
            known.append((sent, count))
        elif sent.executed != "no":
            untold += 1
    return known, untold


def _gap(view: EpisodeView, untold: int) -> str:
    return (
        f"{untold} replies do not tell their tokens" if untold else view.unseen(view.trace.links.model_names)
    )


def _sum(known: Sequence[tuple[Request, int]]) -> int:
    return sum(count for _, count in known)


def _ids(known: Sequence[tuple[Request, int]]) -> list[str]:
    return [id for sent, _ in known for id in sent.ids]
