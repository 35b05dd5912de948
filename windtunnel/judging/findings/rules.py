"""All rules, and what they find in a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windtunnel.history.events import Event
from windtunnel.judging.findings.asked_again import ASKED_AGAIN
from windtunnel.judging.findings.error_as_result import ERROR_AS_RESULT
from windtunnel.judging.findings.finding import SEVERITIES, Finding, Rule
from windtunnel.judging.findings.foreign_secret import FOREIGN_SECRET
from windtunnel.judging.findings.hasty_retry import HASTY_RETRY
from windtunnel.judging.findings.layered_retries import LAYERED_RETRIES
from windtunnel.judging.findings.lost_write import WRITE_REPEATED
from windtunnel.judging.findings.no_time_limit import NO_TIME_LIMIT
from windtunnel.judging.findings.open_stream import OPEN_STREAM
from windtunnel.judging.findings.past_the_lab import PAST_THE_LAB
from windtunnel.judging.findings.trace import EpisodeTrace, traces
from windtunnel.judging.findings.useless_retry import USELESS_RETRY

RULES: tuple[Rule, ...] = (
    WRITE_REPEATED,
    ERROR_AS_RESULT,
    FOREIGN_SECRET,
    OPEN_STREAM,
    NO_TIME_LIMIT,
    HASTY_RETRY,
    USELESS_RETRY,
    LAYERED_RETRIES,
    ASKED_AGAIN,
    PAST_THE_LAB,
)


def findings_in(events: Iterable[Event], rules: Iterable[Rule] = RULES) -> list[Finding]:
    """What the rules find in the events of a run: the gravest first, those of one rule together."""
    rules = list(rules)
    findings = [finding for trace in traces(events) for finding in _of_episode(trace, rules)]
    order = [rule.name for rule in rules]
    return sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), order.index(one.rule)))


def _of_episode(trace: EpisodeTrace, rules: Iterable[Rule]) -> Iterator[Finding]:
    for rule in rules:
        for seen in rule.observe(trace):
            if seen.evidence:
                severity = seen.severity or rule.severity
                yield Finding(rule.name, severity, seen.text, trace.episode, seen.evidence)
