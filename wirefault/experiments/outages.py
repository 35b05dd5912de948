"""Outages as the subject saw them: from a failure until the same request worked again. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import Struct

from wirefault.history.events import (
    AttemptArmed,
    Event,
    Exchange,
    ModelCall,
    ToolTry,
    WentPastLab,
)
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

OutageEnd = Literal["recovered", "not_recovered", "unknown"]


@dataclass(frozen=True)
class Interruption:
    """From the end of the first failed request to the end of the first successful request for the same.

    ``seconds``: its duration; if it never ended, until the end of the episode, which is a lower bound. End
    ``unknown``: a later request on the link worked that may have been for the same, at least ``seconds``
    later.
    """

    link: str
    end: OutageEnd
    seconds: float
    evidence: tuple[str, ...]
    operation: str = ""
    """The request, with numbers and ids masked."""
    fault: str = ""
    """The faults injected into the first failed request, or the toxics on its link; empty without any."""


class EpisodeOutages(Struct, frozen=True, omit_defaults=True):
    """``whole``: the list is complete, since no request is hidden and each one's success is known."""

    outages: tuple[Interruption, ...]
    whole: bool


def outages_in(traces: Iterable[EpisodeTrace]) -> Mapping[str, EpisodeOutages]:
    """The outages of a run, by episode; episodes without any are included."""
    return {trace.episode: _trace_outages(trace) for trace in traces}


def _trace_outages(trace: EpisodeTrace) -> EpisodeOutages:
    if not any(map(_may_be_failure, trace.events)):  # joining the requests takes longer
        return EpisodeOutages((), whole=True)
    outages = outages_of(trace, _end_of(trace), lambda request: _fault_in(request, trace))
    return EpisodeOutages(tuple(outages), _is_whole(trace))


def _fault_in(request: Request, trace: EpisodeTrace) -> str:
    toxics = {
        toxic.kind
        for armed in trace.armed
        for toxic in armed.toxics
        if (armed.attempt, toxic.link) == (request.attempt, request.link_name)
    }
    return " + ".join(sorted(request.fault_kinds or toxics))


_MASKED = re.compile(r"(?<=/)(?:[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{16,}|\d+)(?=/|$|\s)")


def operation_of(request: Request) -> str:
    """The request's method and path, or its tool; numbers and ids in a path are ``*``, as in a wiring."""
    return _MASKED.sub("*", request.name)


def outages_of(
    trace: EpisodeTrace, until: float, fault_of: Callable[[Request], str] = lambda _: ""
) -> list[Interruption]:
    """The outages in an episode's requests; it ended at ``until`` (seconds since the epoch).

    ``fault_of``: the faults of a failed request.

    Requests for the same belong together in any attempt; those to a model only within an attempt.
    """
    groups: defaultdict[object, list[Request]] = defaultdict(list)
    for request in trace.requests:
        attempt, *same = trace.sames[id(request)]
        groups[attempt if request.of_model else None, *same].append(request)
    return [
        replace(outage, operation=operation_of(failed), fault=fault_of(failed))
        for group in groups.values()
        for failed, outage in _in_group(group, trace.requests, until)
    ]


def _in_group(
    group: Iterable[Request], requests: Sequence[Request], until: float
) -> Iterator[tuple[Request, Interruption]]:
    """Each outage with its first failed request."""
    failed: Request | None = None
    for request in group:
        if request.failed is False:
            if failed is not None:
                ids = (*failed.ids, *request.ids)
                seconds = max(request.end - failed.end, 0.0)
                yield failed, Interruption(request.link_name, "recovered", seconds, ids)
            failed = None
        elif failed is None and request.failed:
            failed = request
    if failed is not None:
        yield failed, _without_end(failed, requests, until)


def _without_end(failed: Request, requests: Sequence[Request], until: float) -> Interruption:
    """An outage after which no request for the same worked."""
    later = [r for r in requests if r.link_name == failed.link_name and r.start >= failed.end]
    if failed.same is None or any(r.same is None or r.failed is None for r in later):
        perhaps = next((request for request in later if not request.failed), None)
        if perhaps is not None:
            seconds = max(perhaps.end - failed.end, 0.0)
            return Interruption(failed.link_name, "unknown", seconds, failed.ids)
    return Interruption(failed.link_name, "not_recovered", max(until - failed.end, 0.0), failed.ids)


def _end_of(trace: EpisodeTrace) -> float:
    """The end of its last attempt or of its last request, whichever is later."""
    return max(
        [*(end.event.end for end in trace.ends), *(request.end for request in trace.requests)], default=0.0
    )


def _is_whole(trace: EpisodeTrace) -> bool:
    seen = not trace.past_lab and (trace.keeps_record or not trace.hidden_links)
    return seen and all(request.failed is not None for request in trace.requests)


def _may_be_failure(event: Event) -> bool:
    """Whether something may have failed in the event's episode."""
    match event:
        case Exchange():
            failed = event.status is None or event.status >= 400 or not event.reply_complete
            return failed or event.client_left or bool(event.tool) or bool(event.faults)
        case ToolTry() | ModelCall():
            return event.error is not None
        case AttemptArmed():
            return bool(event.toxics)
        case WentPastLab():
            return True
    return False
