"""The list of all rules, and the findings of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wirefault.history.judged_events import SEVERITIES, Finding
from wirefault.judging.findings.claimed import ERROR_AS_RESULT, WRITE_ON_GREETING
from wirefault.judging.findings.damaged import DAMAGED_CALL, DAMAGED_REPLY, EMPTY_REPLY, ERROR_AS_ANSWER
from wirefault.judging.findings.finding import Rule, finding_of
from wirefault.judging.findings.leaks import FOREIGN_SECRET, PAST_THE_LAB
from wirefault.judging.findings.retries import (
    ASKED_AGAIN,
    HASTY_RETRY,
    LAYERED_RETRIES,
    RETRY_STORM,
    USELESS_RETRY,
)
from wirefault.judging.findings.servers import DEAD_SERVER
from wirefault.judging.findings.streams import NO_TIME_LIMIT, OPEN_STREAM
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.trace import EpisodeTrace

RULES: tuple[Rule, ...] = (
    WRITE_REPEATED,
    ERROR_AS_RESULT,
    DAMAGED_CALL,
    WRITE_ON_GREETING,
    FOREIGN_SECRET,
    OPEN_STREAM,
    DAMAGED_REPLY,
    EMPTY_REPLY,
    ERROR_AS_ANSWER,
    DEAD_SERVER,
    NO_TIME_LIMIT,
    HASTY_RETRY,
    RETRY_STORM,
    USELESS_RETRY,
    LAYERED_RETRIES,
    ASKED_AGAIN,
    PAST_THE_LAB,
)
_ORDER = [rule.name for rule in RULES]


def trace_findings(traces: Iterable[EpisodeTrace], rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Return the findings in the traces of a run's episodes, the gravest first, grouped by rule."""
    rules = list(rules)
    return in_order(finding for trace in traces for finding in _episode_findings(trace, rules))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of rules, the gravest first, then in the order of the rules."""
    return sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), _ORDER.index(one.rule)))


def _episode_findings(trace: EpisodeTrace, rules: Iterable[Rule]) -> Iterator[Finding]:
    for rule in rules:
        for observation in rule.check(trace).observations:
            yield finding_of(rule, observation, trace)
