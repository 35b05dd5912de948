"""Logical calls of an episode: how often each was sent, whether it worked, what its failed tries cost. Pure.

A logical call is the first request for something, with all further ones for the same that follow a failure:
tries of the SDK, the code, repeated steps and the model. A request after a success is another call.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from wirefault.experiments.expression import Truth
from wirefault.experiments.outages import operation_of
from wirefault.judging.layers import LAYERS, Layer, layer_of
from wirefault.judging.requests import Request
from wirefault.judging.same import calls_in as tries_by_call
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import costs_of, may_have_unknown_tokens
from wirefault.settings.budgets import Price


class FailedCalls(Struct, frozen=True, omit_defaults=True):
    """The logical calls of an episode of which at least one request failed."""

    calls: int = 0
    requests: int = 0
    """For these calls."""
    repeated_by: Mapping[Layer, int] = {}
    whole: bool = True
    """Whether it is known which requests failed, and which were for the same."""

    def __add__(self, other: FailedCalls) -> FailedCalls:
        by = Counter(self.repeated_by)
        by.update(other.repeated_by)
        return FailedCalls(
            self.calls + other.calls,
            self.requests + other.requests,
            {layer: by[layer] for layer in LAYERS if by[layer]},
            self.whole and other.whole,
        )


class LogicalCall(Struct, frozen=True, omit_defaults=True):
    """One logical call as the subject saw it, all of its tries together."""

    link: str
    operation: str
    ok: Truth
    """Whether its last try worked; None if that is unknown."""
    seconds: float
    """From the start of its first try to the end of its last one."""


class FailedTries(Struct, frozen=True, omit_defaults=True):
    """The failed tries of an episode: all tries of a call but the one that worked, if one did."""

    failed: int = 0
    tries: int = 0
    """All of the episode, failed or not."""
    seconds: float = 0.0
    """Of the failed ones."""
    tokens: int | None = 0
    """Of the failed ones, in and out; None if a reply may have had some that are not known."""
    cost: float | None = None
    """In USD; None without prices, tokens, or the price of a model."""
    whole: bool = True
    """Whether each try is known to have failed or not."""


def calls_in(
    trace: EpisodeTrace, prices: Mapping[str, Price], *, whole: bool
) -> tuple[tuple[LogicalCall, ...], FailedCalls, FailedTries]:
    """The logical calls of an episode, those that failed, and the failed tries.

    ``whole``: whether it is known for every request that it failed, or did not.
    """
    chains = _all_chains(trace)
    return (
        tuple(map(_call, chains)),
        _failed_calls(trace, chains, whole=whole),
        _failed_tries(trace.requests, prices, whole=whole),
    )


def logical_calls(trace: EpisodeTrace) -> tuple[LogicalCall, ...]:
    """The logical calls of an episode alone."""
    return tuple(map(_call, _all_chains(trace)))


def _all_chains(trace: EpisodeTrace) -> list[Sequence[Request]]:
    if not any(request.failed for request in trace.requests):  # finding the same ones takes longer
        return [[request] for request in trace.requests]
    return list(tries_by_call(trace.rows))


def _call(chain: Sequence[Request]) -> LogicalCall:
    last, failed = chain[-1], chain[-1].failed
    seconds = max(last.end - chain[0].start, 0.0)
    return LogicalCall(last.link_name, operation_of(last), None if failed is None else not failed, seconds)


def _failed_calls(trace: EpisodeTrace, chains: Iterable[Sequence[Request]], *, whole: bool) -> FailedCalls:
    failed = [chain for chain in chains if chain[0].failed]
    by = Counter(layer_of(trace, *pair) for chain in failed for pair in pairwise(chain))
    repeated_by = {layer: by[layer] for layer in LAYERS if by[layer]}
    known = whole and all(chain[0].same is not None or _is_last(trace, chain[0]) for chain in failed)
    return FailedCalls(len(failed), sum(map(len, failed)), repeated_by, known)


def _is_last(trace: EpisodeTrace, request: Request) -> bool:
    return all(
        other.link_name != request.link_name or other.start <= request.start for other in trace.requests
    )


def _failed_tries(requests: Sequence[Request], prices: Mapping[str, Price], *, whole: bool) -> FailedTries:
    failed = [request for request in requests if request.failed]
    costs = costs_of([r.exchange for r in failed if r.exchange is not None], prices)
    known = not any(may_have_unknown_tokens(request.exchange) for request in failed)
    priced = bool(prices) and known and not costs.unpriced
    return FailedTries(
        len(failed),
        len(requests),
        math.fsum(request.ms for request in failed) / 1000,
        (costs.tokens or 0) if known else None,
        (costs.usd or 0.0) if priced else None,
        whole,
    )
