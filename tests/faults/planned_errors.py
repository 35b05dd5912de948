"""The effect of ERROR_PROB on a try, computed from the schedule alone; the gateway must match it."""

from __future__ import annotations

from dataclasses import dataclass

from wirefault.core.identity import choose, draw
from wirefault.faults.catalogue.http.errors import ERROR_KINDS


@dataclass(frozen=True)
class PlannedError:
    kind: str
    status: int


def plan_error(
    seed: int,
    error_prob: float,
    episode: str,
    attempt: int,
    link: str,
    fingerprint: str,
    call: int,
    try_: int,
) -> PlannedError | None:
    """The HTTP error that the gateway gives this try instead of forwarding it, or None."""
    key = (seed, episode, attempt, link, fingerprint, call, try_)
    if draw(*key, "error") >= error_prob:
        return None
    kind, status = choose(draw(*key, "error-kind"), ERROR_KINDS)
    return PlannedError(kind, status)
