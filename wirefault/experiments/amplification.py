"""Amplification: how many requests were sent for one call that failed, and by which layer. Pure.

A logical call is the first request for something, with all further ones for the same that follow a failure:
tries of the SDK, the code, the framework and the model. A request after a success is another call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from wirefault.experiments.outages import has_failed
from wirefault.judging.layers import LAYERS, Layer, layer_of
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace


@dataclass(frozen=True)
class FailedCalls:
    """The logical calls of an episode of which at least one request failed."""

    calls: int = 0
    requests: int = 0
    """For these calls."""
    repeated_by: Mapping[Layer, int] = field(default_factory=dict)
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


def failed_calls(trace: EpisodeTrace, *, whole: bool) -> FailedCalls:
    """``whole``: whether it is known for every request that it failed, or did not."""
    groups: defaultdict[object, list[Request]] = defaultdict(list)
    for request in trace.requests:
        groups[request.same or id(request)].append(request)
    chains = [chain for group in groups.values() for chain in _chains(group)]
    failed = [chain for chain in chains if has_failed(chain[0])]
    by = Counter(layer_of(trace, *pair) for chain in failed for pair in pairwise(chain))
    repeated_by = {layer: by[layer] for layer in LAYERS if by[layer]}
    known = whole and all(chain[0].same is not None or _is_last(trace, chain[0]) for chain in failed)
    return FailedCalls(len(failed), sum(map(len, failed)), repeated_by, known)


def _chains(group: Iterable[Request]) -> Iterator[Sequence[Request]]:
    """The requests for one thing by logical call; those that were in progress at once are several calls."""
    chains: list[list[Request]] = []
    for request in group:
        waiting = [c for c in chains if has_failed(c[-1]) and c[-1].end <= request.start]
        if waiting:
            max(waiting, key=lambda chain: chain[-1].end).append(request)
        else:
            chains.append([request])
    return iter(chains)


def _is_last(trace: EpisodeTrace, request: Request) -> bool:
    return all(
        other.link_name != request.link_name or other.start <= request.start for other in trace.requests
    )
