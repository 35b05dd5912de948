"""All rules together: their order, evidence and texts."""

from __future__ import annotations

from tests.judging.findings.traced import LINKS, findings_in, lost, model_request, request
from tests.judging.oracle.histories import run_started
from tests.support import replace
from wirefault.judging.checker import Observation
from wirefault.judging.findings.rules import RULES
from wirefault.judging.findings.writes import WRITE_REPEATED

START = replace(run_started(1), links=list(LINKS))
TWICE = [lost(), request(0.4, status=201)]
HASTY = [model_request(1, status=429, retry_after=5.0), model_request(2)]


def test_most_severe_finding_comes_first():
    findings = findings_in([START, *HASTY, *TWICE])
    assert [(finding.rule, finding.severity) for finding in findings] == [
        ("write_repeated", "harmful"),
        ("hasty_retry", "risky"),
    ]


def test_no_finding_without_evidence():
    hearsay = replace(WRITE_REPEATED, observe=lambda trace: iter([Observation("somebody said so", ())]))
    assert findings_in([START, *TWICE], [hearsay]) == []


def test_requests_without_episode_are_ignored():
    assert findings_in([START, *(replace(event, episode="") for event in TWICE)]) == []


def test_rules_are_named_and_described():
    assert len({rule.name for rule in RULES}) == len(RULES) == 17
    assert all(rule.title and rule.fires and rule.silent and rule.mistaken for rule in RULES)
