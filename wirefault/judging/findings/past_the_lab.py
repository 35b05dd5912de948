"""Connections of the subject's that were seen to go past the lab, where no fault can strike them."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.trace import EpisodeTrace


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    if trace.went_past:
        where = "; ".join(dict.fromkeys(seen.event.text for seen in trace.went_past))
        text = f"it went past the lab: {where}: no fault can strike that, and nothing of it is recorded"
        yield Observation(text, tuple(seen.id for seen in trace.went_past))


PAST_THE_LAB = Rule(
    name="past_the_lab",
    severity="note",
    title="a connection past the lab",
    fires=(
        "Behind the proxy tap on Linux a program of the subject's was seen with a connection to an address "
        "that is none of the lab's: it ignores the proxy variables. What it does there no fault strikes, so "
        "what the run shows is not of all that the subject calls. `--pass ADDRESS:PORT` says that it is to "
        "be so."
    ),
    silent=(
        "a connection was open so briefly that none of the looks, 50 in a second, fell on it",
        "UDP was sent by a socket without a peer, as some clients of HTTP/3 do",
        "a program works for the subject that it has not started, as a Docker daemon does",
        "it led to a server of the subject's own, to a name server, or to what is to pass (`--pass`)",
        "the system is not Linux, or the subject runs already (`http:`): nobody looks there",
    ),
    mistaken=("a connection that is no part of the task, as to a debugger or to a database of the tests",),
    observe=_observe,
)
