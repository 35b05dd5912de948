"""The findings of a recording, each with the call that shows it, so that two recordings can be matched."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from wirefault.audit.options import is_audit
from wirefault.audit.result import read_audit
from wirefault.experiments.baseline import KnownFinding
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


def _all_findings(recording: Recording, arms: Collection[str]) -> Iterator[KnownFinding]:
    if recording.experiment is not None and is_audit(recording.experiment):
        yield from _audit_findings(recording.experiment)
        return
    for name, arm in recording.arms.items():
        if name in arms:
            yield from _arm_findings("" if name == PLAIN_RUN else name, arm)


def _audit_findings(saved: SavedExperiment) -> Iterator[KnownFinding]:
    for answer in read_audit(saved).answers:
        call = f"{answer.ask.call.key.link} {masked(answer.ask.call.text)}"
        for seen in filter(None, (answer.worst, *answer.others)):
            yield KnownFinding(arm="", rule=seen.rule, call=call, severity=seen.severity, text=seen.text)


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
