"""Findings, and the description of each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from wirefault.history.judged_events import SEVERITIES, Finding, Severity
from wirefault.judging.checker import CheckResult, Observation
from wirefault.judging.subject_name import YOUR_AGENT, agent_of
from wirefault.judging.trace import EpisodeTrace

MAY_HAVE = " may have "
"""In the headline of what is not certain, before a participle that is the past tense, too."""


class Graded(Protocol):
    """A finding of a run, or of an audit."""

    @property
    def severity(self) -> Severity: ...
    @property
    def rule(self) -> str: ...


GradedT = TypeVar("GradedT", bound=Graded)


def worst_of(findings: Iterable[GradedT]) -> GradedT | None:
    """Return the first of the most severe; None if all are notes.

    Findings come in the order of the run's episodes or of the audit's questions, so every reader of a
    recording names the same one.
    """
    grave = (each for each in findings if each.severity != "note")
    return min(grave, key=lambda each: SEVERITIES.index(each.severity), default=None)


def worst_finding(findings: Iterable[Graded]) -> str:
    """The worst one's severity and rule: ``harmful: write_repeated``; empty if all are notes."""
    worst = worst_of(findings)
    return f"{worst.severity}: {worst.rule}" if worst is not None else ""


@dataclass(frozen=True)
class RuleText:
    """The description of a rule, as in ``docs/findings-rules.md``."""

    name: str
    headline: str  # of a finding: who did what, with {agent}, and {call} for the first one of the evidence
    severity: Severity
    title: str  # short name for people
    fires: str  # when it fires
    silent: tuple[str, ...]  # similar cases that it does not report
    mistaken: tuple[str, ...]  # known false positives


@dataclass(frozen=True)
class Rule(RuleText):
    """A rule that makes findings from one episode."""

    observe: Callable[[EpisodeTrace], Iterator[Observation]]  # pure; reads only the trace

    @property
    def expected(self) -> str:
        """The expected behaviour, for people."""
        return f"not: {self.title}"

    def check(self, trace: EpisodeTrace) -> CheckResult:
        """Check the episode. Notes and observations without evidence do not fail it."""
        observations = tuple(each for each in self.observe(trace) if each.evidence)
        return CheckResult(
            passed=all(each.severity == "note" for each in observations),
            name=self.name,
            measured="; ".join(each.text for each in observations),
            expected=self.expected,
            evidence=tuple(dict.fromkeys(id for each in observations for id in each.evidence)),
            observations=observations,
        )


def headline_of(
    rule: RuleText, observation: Observation, agent: str = YOUR_AGENT, trace: EpisodeTrace | None = None
) -> str:
    """Say who did what, in one sentence without a full stop."""
    request = trace.first_request_in(observation.evidence) if trace is not None else None
    text = (observation.headline or rule.headline).replace("{agent}", agent)
    return text.replace("{call}", request.name if request is not None else "a request")


def finding_of(rule: RuleText, observation: Observation, trace: EpisodeTrace) -> Finding:
    """Return the finding that the rule makes of what it observed in the episode."""
    return Finding(
        rule.name,
        observation.severity or rule.severity,
        observation.text,
        trace.episode,
        observation.evidence,
        headline_of(rule, observation, agent_of(trace.run), trace),
        client_of(trace, observation.evidence),
    )


def client_of(trace: EpisodeTrace, evidence: Iterable[str]) -> str:
    """Return the client that the evidence's requests name, else the episode's; empty if none is named."""
    requests = [*trace.requests_in(evidence), *trace.requests]
    return next((each.exchange.client for each in requests if each.exchange and each.exchange.client), "")


SENT_ANYWAY = (
    "the second request was sent before the first had failed, or on a connection that was opened before that "
    "and had carried no other request",
    "in an experiment or an audit: every run without faults sends the request as often",
)
"""When an equal request repeats nothing, for ``RuleText.silent``."""

_LONG_SPANS = ((365.25 * 86400, "year"), (86400, "day"), (3600, "hour"), (60, "minute"))


def span_in_words(span: float) -> str:
    """A span of time for a sentence: ``172 ms``, ``1.4 s``, ``65 s``, ``11 years``."""
    if span < 0.9995:
        return f"{max(span, 0) * 1000:.0f} ms"
    if span < 120:
        return f"{span:.1f}".removesuffix(".0") + " s" if span < 9.95 else f"{span:.0f} s"
    seconds, unit = next(long for long in _LONG_SPANS if span >= 2 * long[0])
    return f"{span / seconds:.0f} {unit}s"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
