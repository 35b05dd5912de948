"""The findings of a recording, each with the call that shows it, so that two recordings can be matched.

An audit's clean runs decide what is a finding, so its findings are those of its answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from wirefault.audit.options import is_audit
from wirefault.audit.result import NoCleanRuns, as_finding, read_audit
from wirefault.experiments.baseline import KnownFinding
from wirefault.experiments.compare import Side, side_of
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.conduct import masked
from wirefault.judging.trace import EpisodeTrace


def known_findings(recording: Recording, arms: Collection[str] = ()) -> list[KnownFinding]:
    """Return one finding for each arm, rule and call; of these arms only. Raises ``InputError``."""
    unique: dict[tuple[str, str, str], KnownFinding] = {}
    for finding in _all_findings(recording, arms or recording.arms):
        unique.setdefault(finding.key, finding)
    return list(unique.values())


def compared_side(recording: Recording, arms: Sequence[str] = ()) -> Side:
    """Return the side to compare. Raises ``InputError`` for unknown and unreadable arms."""
    side, saved = side_of(recording, arms), recording.experiment
    if saved is None or not is_audit(saved):
        return side
    try:
        count = str(len(known_findings(recording)))
    except NoCleanRuns:
        count = "unknown"
    counted = {
        name: replace(arm, measures={**arm.measures, "findings": count}) for name, arm in side.arms.items()
    }
    return replace(side, arms=counted)


def _all_findings(recording: Recording, arms: Collection[str]) -> Iterator[KnownFinding]:
    if recording.experiment is not None and is_audit(recording.experiment):
        yield from _audit_findings(recording.experiment)
        return
    for name, arm in recording.arms.items():
        if name in arms:
            yield from _arm_findings("" if name == PLAIN_RUN else name, arm)


def _audit_findings(saved: SavedExperiment) -> Iterator[KnownFinding]:
    for answer in read_audit(saved).answers:
        call = f"{answer.ask.call.key.link} {masked(answer.ask.call.text)}, {answer.ask.question.name}"
        for seen in answer.seen:
            text = as_finding(seen, answer.ask, "").text
            yield KnownFinding(arm="", rule=seen.rule, call=call, severity=seen.severity, text=text)


def _arm_findings(name: str, arm: RecordedArm) -> Iterator[KnownFinding]:
    for judgement in arm.judgements.values():
        for finding in judgement.findings:
            yield KnownFinding(
                arm=name,
                rule=finding.rule,
                call=_call_text(finding, judgement.traces[finding.episode]),
                severity=finding.severity,
                text=finding.text,
            )


def _call_text(finding: Finding, trace: EpisodeTrace) -> str:
    """The first call of its evidence; empty if its evidence has no request."""
    request = trace.first_request_in(finding.evidence)
    return f"{request.link_name} {masked(request.name)}" if request is not None else ""
