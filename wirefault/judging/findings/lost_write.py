"""A write repeated after its reply was lost, so that its upstream may have carried it out twice."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import Sent, span_in_words
from wirefault.judging.findings.trace import EpisodeTrace

_REPEATABLE = frozenset({"PUT", "DELETE"})


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        lost: list[Sent] = []
        for sent in group:
            first = next((earlier for earlier in reversed(lost) if earlier.end <= sent.start), None)
            if first is not None and not _is_safe(trace, first, sent):
                yield _repetition(first, sent)
            if sent.succeeded:
                lost.clear()  # its caller knows that it is done, and has another reason to ask again
            elif sent.reply_lost and sent.executed != "no" and not sent.of_model:
                lost.append(sent)


def _is_safe(trace: EpisodeTrace, first: Sent, again: Sent) -> bool:
    """Whether the upstream can tell the repetition, or the caller has looked before it repeated."""
    if again.executed == "no" or not (_may_write(first) or first.is_write):
        return True
    if None in (first.key, again.key) or (first.key and first.key == again.key):
        return True
    looked = any(
        sent.is_read and sent.succeeded and sent.link_name == first.link_name
        for sent in trace.between(first, again)
    )
    both = first.executed == again.executed == "yes"
    return not both and (looked or first.method in _REPEATABLE)


def _may_write(sent: Sent) -> bool:
    """Whether nobody has said which calls of the link change state, and this one is of a kind that does."""
    undeclared = sent.link is not None and not sent.link.writes and not sent.link.is_of_lab
    return undeclared and sent.method in ("POST", "PATCH")


def _repetition(first: Sent, again: Sent) -> Observation:
    after = f"{first.name} was sent again {span_in_words(again.start - first.end)} after its reply was lost"
    both = first.executed == again.executed == "yes"
    done = "both were executed" if both else "it may have been executed twice"
    keys = "with no Idempotency-Key" if not again.key else "with another Idempotency-Key"
    if first.method in _REPEATABLE:
        text = f"{after}; {done}, and by HTTP's definition the second changes nothing more"
        return Observation(text, first.ids + again.ids, "note")
    undeclared = "" if first.is_write else ", if it is a write, which the wiring does not say"
    certain = both and first.is_write
    text = f"{after}; {done}, {keys}{undeclared}"
    return Observation(text, first.ids + again.ids, "harmful" if certain else "risky")


WRITE_REPEATED = Rule(
    name="write_repeated",
    severity="harmful",
    title="a write repeated after a lost reply",
    fires=(
        "A call that changes state was sent, its reply did not reach the caller, its upstream had carried it "
        "out or may have, and the same call was sent again in the attempt with no key by which the upstream "
        "could know the repetition. `harmful` if both were answered with 2xx or 3xx by the upstream (a "
        "tool of MCP: with a result), else `risky`; a `note` for PUT and DELETE, which HTTP allows to be "
        "repeated."
    ),
    silent=(
        "both carry the same Idempotency-Key, or the same value in the field that the wiring names",
        "the first, or the repetition, was not forwarded or was refused (4xx; a tool of MCP: an error)",
        "the reply reached the caller, or nobody knows whether it did (a toxic that may cut replies is "
        "armed, and the subject keeps no record)",
        "the caller read something on that link in between, and not both were certainly executed",
        "another attempt at the prompt repeats it: the runner asked for that",
    ),
    mistaken=(
        "an upstream that knows repetitions by something else: a natural key, a unique constraint",
        "a POST of a link for which the wiring names no writes, and that changes nothing",
    ),
    observe=_observe,
)
