"""All rules, and what they find in a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.history.events import Event
from windtunnel.judging.findings.finding import SEVERITIES, Finding, Rule
from windtunnel.judging.findings.lost_write import WRITE_REPEATED
from windtunnel.judging.findings.trace import EpisodeTrace, traces

RULES: tuple[Rule, ...] = (WRITE_REPEATED,)


def findings_in(events: Iterable[Event], rules: Iterable[Rule] = RULES) -> list[Finding]:
    """What the rules find in the events of a run: the gravest first, those of one rule together."""
    rules = list(rules)
    found = [finding for trace in traces(events) for finding in _of_episode(trace, rules)]
    order = [rule.name for rule in rules]
    return sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), order.index(finding.rule)))


def _of_episode(trace: EpisodeTrace, rules: Iterable[Rule]) -> Iterable[Finding]:
    for rule in rules:
        for seen in rule.observe(trace):
            if seen.evidence:
                yield Finding(
                    rule.name, seen.severity or rule.severity, seen.text, trace.episode, seen.evidence
                )
