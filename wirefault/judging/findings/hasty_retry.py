"""A request sent again sooner than the server had asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import Sent, span_in_words
from wirefault.judging.findings.trace import EpisodeTrace

# Clocks differ, and clients round: what comes a tenth too early was meant to wait.
_ENOUGH = 0.9


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        for first, again in pairwise(group):
            wanted = _wanted(first)
            waited = _waited(first, again)
            if wanted and waited is not None and 0 <= waited < _ENOUGH * wanted:
                text = (
                    f"{first.name} was sent again {span_in_words(waited)} after a {first.status} whose "
                    f"Retry-After asked for {wanted:g} s"
                )
                yield Observation(text, first.ids + again.ids)


def _wanted(sent: Sent) -> float | None:
    """The seconds that the reply asked for; None if it did not, or did not reach the caller."""
    if sent.exchange is None or sent.status is None or sent.status < 300:
        return None
    return sent.exchange.retry_after


def _waited(first: Sent, again: Sent) -> float | None:
    """At most so many seconds, as the gateway saw it; None for what was sent by another's right.

    The caller has seen the reply later and sent the next earlier than that, so it waited no longer.
    """
    if first.exchange is None or again.exchange is None:
        return None
    if first.exchange.credential != again.exchange.credential:
        return None
    return again.exchange.start - (first.exchange.start + first.exchange.ms / 1000)


HASTY_RETRY = Rule(
    name="hasty_retry",
    severity="risky",
    title="Retry-After not respected",
    fires=(
        "A reply of 300 or more carried a Retry-After, the caller saw it, and the same request came to the "
        "gateway again before nine tenths of that time were over."
    ),
    silent=(
        "at least 90 % of the time was waited",
        "another request goes to the same server meanwhile: only the same one counts",
        "the next one has another credential",
        "it was under way before the reply came, or the reply was lost",
        "the Retry-After is a date, or not recorded",
    ),
    mistaken=("a server whose Retry-After is a standing phrase, and which takes the next request at once",),
    observe=_observe,
)
