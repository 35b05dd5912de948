"""The findings of a recording, each with the call that shows it, so that two recordings can be matched.

An audit's clean runs decide what is a finding, so its findings are those of its answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from wirefault.audit.options import is_audit
from wirefault.audit.result import NoCleanRuns, as_finding, read_audit
from wirefault.experiments.baseline import KnownFinding, missing_in
from wirefault.experiments.compare import Side, side_of
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.conduct import masked
from wirefault.judging.trace import EpisodeTrace


def known_findings(recording: Recording, arms: Collection[str] = ()) -> list[KnownFinding]:
    """Return one finding for each arm, rule, call and question. Raises ``InputError``.

    ``arms``: of these only; a recording without named arms has one.
    """
    unique: list[KnownFinding] = []
    for finding in _all_findings(recording, arms or recording.arms):
        unique += missing_in(unique, [finding])
    return unique


def compared_side(recording: Recording, arms: Sequence[str] = ()) -> Side:
    """Return the side to compare. Raises ``InputError`` for unknown and unreadable arms."""
    side, saved = side_of(recording, arms), recording.experiment
    if saved is None or not is_audit(saved):
        return side
    try:
        count, result = str(len(known_findings(recording))), read_audit(saved)
        nothing, unknown = result.shows_nothing, result.unknown
    except NoCleanRuns as error:
        count, nothing, unknown = "unknown", str(error), ""
    counted = {
        name: replace(
            arm, measures={**arm.measures, "findings": count}, shows_nothing=nothing, unknown=unknown
        )
        for name, arm in side.arms.items()
    }
    return replace(side, arms=counted)


def _all_findings(recording: Recording, arms: Collection[str]) -> Iterator[KnownFinding]:
    if recording.experiment is not None and is_audit(recording.experiment):
        yield from _audit_findings(recording.experiment)
        return
    for name, arm in recording.arms.items():
        if name in ("", PLAIN_RUN):
            yield from _arm_findings("", arm)
        elif name in arms:
            yield from _arm_findings(name, arm)


def _audit_findings(saved: SavedExperiment) -> Iterator[KnownFinding]:
    for answer in read_audit(saved).answers:
        call = answer.ask.call
        question = f"{answer.ask.question.name}, {call.key.link} {masked(call.text)}"
        for seen in answer.seen:
            run = next(each for each in answer.runs if seen in each.seen)
            [trace] = saved.facts.judgement(run.run_id).traces.values()
            yield _known("", as_finding(seen, answer.ask, ""), trace, question)


def _arm_findings(name: str, arm: RecordedArm) -> Iterator[KnownFinding]:
    for judgement in arm.judgements.values():
        for finding in judgement.findings:
            yield _known(name, finding, judgement.traces[finding.episode])


def _known(arm: str, finding: Finding, trace: EpisodeTrace, question: str = "") -> KnownFinding:
    """Return it with the first call of its evidence, if its evidence has a request."""
    request = trace.first_request_in(finding.evidence)
    call = address = ""
    if request is not None:
        name, text = request.link_name, masked(request.name)
        call, upstream = f"{name} {text}", trace.links[name].upstream if name in trace.links else ""
        if "://" in upstream:
            method, _, path = text.partition(" ")
            address = f"{method} {upstream.rstrip('/')}{path}"
    return KnownFinding(
        arm=arm,
        rule=finding.rule,
        call=call,
        address=address,
        question=question,
        severity=finding.severity,
        text=finding.text,
    )
