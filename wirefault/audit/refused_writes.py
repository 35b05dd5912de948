"""Writes that the gateway refused in a run with a fault, since the clean run has no reply for them. Pure."""

from __future__ import annotations

from wirefault.gateway.answered_writes import NOT_KEPT, NOT_RECORDED
from wirefault.history.events import Exchange
from wirefault.judging.trace import EpisodeTrace
from wirefault.wiring.write_requests import path_template


def refused_writes(trace: EpisodeTrace) -> list[Exchange]:
    """Return the refused writes of an episode, the first one first."""
    refused = [exchange for exchange in trace.exchanges if exchange.error in (NOT_RECORDED, NOT_KEPT)]
    return sorted(refused, key=lambda exchange: exchange.start)


def attempt_text(refused: Exchange) -> str:
    """Say what the agent attempted."""
    return f"it attempts {refused.tool or f'{refused.method} {path_template(refused.target)}'}"


def refusal(trace: EpisodeTrace, refused: Exchange) -> str:
    """Say why a run with that write shows nothing."""
    server = trace.links[refused.link].upstream if refused.link in trace.links else refused.link
    attempt = f"{attempt_text(refused)} of {server}"
    if refused.error == NOT_KEPT:
        return f"{attempt}; the clean run's reply has a secret, so it is not kept"
    return (
        f"{attempt}, which no clean run does; Wirefault refused it, so the end of the run shows nothing"
        " (--writes real --yes carries it out)"
    )
