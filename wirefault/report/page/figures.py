"""The figures of a page as data: the same that ``--json`` prints as ``figures``. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.layers import LAYERS, Layer, repeater_of
from wirefault.judging.requests import Request
from wirefault.judging.summary import Summary
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import costs_of
from wirefault.stats.exact import ruled_out_above

RULED_OUT, CONFIDENCE = 0.05, 0.95
"""The error with which a rate above zero is ruled out, and the confidence of a run's intervals."""
_CHANCES = ("ERROR_PROB", "TOXIC_PROB")
_FROM_SUMMARY = (
    "run_id",
    "seed",
    "duration_s",
    "outcomes",
    "success",
    "faults",
    "model_usage",
    "recoveries",
    "kills",
    "remarks",
    "subject",
)


def arm_figures(name: str, summary: Summary, episodes: int) -> dict[str, Any]:
    """Return the figures of an arm: from its summary, and the rate that its judged episodes rule out.

    ``ruled_out`` is the rate of failures that so many ``judged`` episodes without one exclude; None without
    any.
    """
    judged = summary.success.n
    ruled_out = ruled_out_above(judged, RULED_OUT) if judged else None
    whole = summary.as_json()
    counts = {
        "arm": name,
        "episodes": episodes,
        "judged": judged,
        "ruled_out": ruled_out,
        "confidence": CONFIDENCE,
    }
    return counts | {key: whole[key] for key in _FROM_SUMMARY}


def reached_figures(summary: Summary, episodes: Sequence[JudgedEpisode]) -> dict[str, Any]:
    """Count the faults that reached a request, by fault and link, and the chances that drew them."""
    counts = Counter(
        (record.entry or f"{record.kind} ({_CHANCES[record.source == 'toxic']})", record.link)
        for episode in episodes
        for record in episode.judged.faults
        if record.delivered or record.reached("injected")
    )
    chances = {name: summary.settings.get(name.lower()) for name in _CHANCES}
    return {
        "requests": sum(episode.judged.costs.requests for episode in episodes),
        "reached": [
            {"fault": fault, "link": link, "count": count} for (fault, link), count in sorted(counts.items())
        ],
        "faults_reached": sum(counts.values()),
        "chances": {name: chance for name, chance in chances.items() if chance},
    }


def episode_figures(arm: str, episode: JudgedEpisode) -> dict[str, Any]:
    """Return the figures of an episode; tokens and money are None where no reply or price shows them."""
    trace, costs = episode.trace, episode.judged.costs
    return {
        "arm": arm,
        "run": episode.run_id,
        "episode": episode.judged.episode,
        "outcome": episode.judged.outcome,
        "why": episode.judged.why,
        "seconds": trace.seconds,
        "busy_s": busy_seconds(trace),
        "calls": costs.requests,
        "tokens": costs.tokens,
        "usd": costs.usd,
        "findings": [finding.as_json() for finding in episode.findings],
    }


def busy_seconds(trace: EpisodeTrace) -> float:
    """Return the seconds from the first request to the end of the last; without requests, of its attempts.

    In whole milliseconds, so that printed differences add up.

    The start of a program, which depends on the machine, is not among them.
    """
    if not trace.requests:
        return round(trace.seconds, 3)
    begun = min(request.start for request in trace.requests)
    return round(max(request.end for request in trace.requests) - begun, 3)


def link_figures(traces: Sequence[EpisodeTrace]) -> list[dict[str, Any]]:
    """Return a row for each link, of its requests with and without a fault: injected, or a toxic in force.

    ``ms`` has their durations, failed ones included; ``again`` counts by layer the requests that repeated one
    for the same.
    """
    groups: dict[tuple[str, bool], list[tuple[Request, Layer | None]]] = defaultdict(list)
    for trace in traces:
        layers = repeating_layers(trace)
        for request in trace.requests:
            faulted = bool(request.injected) or trace.under_toxic(request)
            groups[request.link_name, faulted].append((request, layers.get(id(request))))
    rows = []
    for (link, faulted), requests in sorted(groups.items()):
        times = [request.ms for request, _ in requests]
        exchanges = [request.exchange for request, _ in requests if request.exchange is not None]
        again = Counter(layer for _, layer in requests)
        rows.append(
            {
                "link": link,
                "faulted": faulted,
                "requests": len(requests),
                "failed": sum(bool(request.failed) for request, _ in requests),
                "tokens": costs_of(exchanges, {}).tokens,
                "ms": {"min": min(times), "median": median(times), "max": max(times)},
                "again": {layer: again[layer] for layer in LAYERS if again[layer]},
            }
        )
    return rows


def repeating_layers(trace: EpisodeTrace) -> Mapping[int, Layer | None]:
    """Return the layer behind each repetition, by the ``id`` of the request; None if it is unknown."""
    pairs = (pair for row in trace.repeated for pair in pairwise(row))
    return {id(again): repeater_of(trace, before, again) for before, again in pairs}
