"""A request that its client waited for until the lab ended the attempt."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.history.events import AttemptEnded
from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import Sent, span_in_words
from wirefault.judging.findings.trace import EpisodeTrace

# in seconds: a request that began shortly before the end had no time to reach a limit
_LEAST_WAIT = 5.0
_ABOUT_THE_END = 0.5


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for end in trace.ends:
        if end.event.ended_by != "limit" or not _time_was_over(trace, end.event):
            continue
        for sent in trace.sent:
            if sent.attempt == end.event.attempt and _waited_to_the_end(sent, end.event):
                waited = end.event.end - sent.start
                text = (
                    f"{sent.name} had no answer for {span_in_words(waited)}, until the attempt's "
                    f"{end.event.ms / 1000:.0f} s were over: its client has no shorter time limit"
                )
                yield Observation(text, (*sent.ids, end.id))


def _time_was_over(trace: EpisodeTrace, end: AttemptEnded) -> bool:
    """Whether it was the time that ended the attempt, not the number of calls."""
    return trace.attempt_seconds > 0 and end.ms / 1000 >= trace.attempt_seconds - _ABOUT_THE_END


def _waited_to_the_end(sent: Sent, end: AttemptEnded) -> bool:
    """Whether it was without any reply when the attempt ended; a caller that keeps a record has limits."""
    exchange = sent.exchange
    if exchange is None or sent.tried is not None or exchange.reply_bytes or exchange.reply_complete:
        return False
    return sent.end >= end.end - _ABOUT_THE_END and end.end - sent.start >= _LEAST_WAIT


NO_TIME_LIMIT = Rule(
    name="no_time_limit",
    severity="risky",
    title="no time limit: waited for a hang until the lab ended it",
    fires=(
        "The attempt's time was over while a request had been without a byte of an answer for 5 s or more, "
        "and its client was still there."
    ),
    silent=(
        "the client left before the attempt ended",
        "the attempt ended by itself, or by another limit",
        "a part of the reply had come: it is not known when the client left then",
        "the subject records its calls with their time limits, as the lab's own does",
    ),
    mistaken=(
        "a client whose time limit is longer than the attempt's (`ATTEMPT_TIME`)",
        "a request that nobody waits for: one in the background, or a long poll",
    ),
    observe=_observe,
)
