"""An episode as memory keeps it, computed from its judged run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wirefault.audit.calls import Call
from wirefault.audit.calls import calls_in as audited_calls
from wirefault.experiments.logical_calls import LogicalCall, logical_calls
from wirefault.experiments.outages import OutageEnd, operation_of, outages_in
from wirefault.faults.sets.conditions import FaultSetError
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import (
    LAB_MODEL,
    EpisodeJudged,
    EpisodeStarted,
    Exchange,
    RunStarted,
)
from wirefault.history.judged_events import Finding, Outcome
from wirefault.judging.judge import JudgedEpisode, RunJudgement
from wirefault.judging.oracle.outcome import is_success
from wirefault.judging.subject_name import subject_name
from wirefault.judging.trace import EpisodeTrace

Result = Literal["success", "partial success", "failure", "unsafe", "interrupted", "unjudged"]
_PARTIAL: frozenset[Outcome] = frozenset({"unconfirmed", "false_failure"})
_MAX_PARAMETER = 1e15
# the kind of a reply is not a dose
_CODES = frozenset({"status", "code", "close", "configuration"})


@dataclass(frozen=True)
class RememberedFault:
    """A delivered fault, with the components that it was injected at: link, tools, model."""

    kind: str
    link: str
    components: tuple[str, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    entry: str = ""
    """Its id in the fault set."""


@dataclass(frozen=True)
class RememberedFinding:
    """A rule that fired. ``components``: of the requests in its evidence; empty without any."""

    rule: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class RememberedOutage:
    """An outage on a link. ``faults``: the kinds that caused it; ``seconds`` until it ended, or at least."""

    link: str
    faults: tuple[str, ...]
    end: OutageEnd
    seconds: float


@dataclass(frozen=True)
class Remembered:
    """An episode in the file of memory: names and numbers alone, so that it outlives its recording.

    ``source``: the experiment or lone run. ``twin_arm``: the control with the same prompts; empty for a
    control and without one. ``uncertain``: whether further faults may have been delivered. ``used``: whether
    all logical calls of each component worked; None if unknown.
    """

    source: str
    arm: str
    run_id: str
    key: str
    subject: str
    time: float
    seconds: float
    outcome: Outcome
    result: Result
    twin_arm: str = ""
    faults: tuple[RememberedFault, ...] = ()
    uncertain: bool = False
    used: Mapping[str, bool | None] = field(default_factory=dict)
    findings: tuple[RememberedFinding, ...] = ()
    outages: tuple[RememberedOutage, ...] = ()
    calls: tuple[Call, ...] = ()
    """Of an episode without faults, without the figures in replies."""

    @property
    def success(self) -> bool | None:
        """Whether it succeeded; None without an outcome that counts."""
        return None if self.result == "interrupted" else is_success(self.outcome)


def result_of(outcome: Outcome, severities: Iterable[str], *, ended: bool) -> Result | None:
    """The result in the words of memory; None if the lab failed, so that nothing is learned.

    ``ended``: the episode was judged during its run. ``severities`` of its findings.
    """
    if not ended:
        return "interrupted"
    if outcome == "invalid":
        return None
    severities = set(severities)
    if "harmful" in severities:
        return "unsafe"
    if outcome == "unjudged":
        return "unjudged"
    if outcome == "success":
        return "partial success" if severities - {"note"} else "success"
    return "partial success" if outcome in _PARTIAL else "failure"


def remembered_episodes(
    judgement: RunJudgement,
    run_id: str,
    source: str,
    arm: str = "",
    twin_arm: str = "",
    audited: Mapping[str, Sequence[Finding]] | None = None,
) -> Iterator[Remembered]:
    """The episodes of a judged run, without those in which the lab failed.

    ``source``, ``arm``, ``twin_arm``: see ``Remembered``. ``audited``: an audit's findings, by episode, which
    count instead of the run's.
    """
    subject = subject_name(judgement.started, judgement.events)
    models, planned = _model_names(judgement), _planned_parameters(judgement.started)
    outages = outages_in(judgement.traces.values())
    for key, episode in judgement.by_episode.items():
        trace, judged = episode.trace, episode.judged
        findings = episode.findings if audited is None else audited.get(key, ())
        ended = trace.last(EpisodeJudged) is not None
        result = result_of(judged.outcome, (each.severity for each in findings), ended=ended)
        if result is None:
            continue
        yield Remembered(
            source=source,
            arm=arm,
            run_id=run_id,
            key=key,
            subject=f"subject {subject}",
            time=next((event.t for event in trace.all(EpisodeStarted)), judgement.started.t),
            seconds=trace.seconds,
            outcome=judged.outcome,
            result=result,
            twin_arm=twin_arm,
            faults=tuple(_faults(episode, models, planned)),
            uncertain=judged.delivered(None) > 0,
            used=_used(logical_calls(trace), models),
            findings=tuple(_remembered(each, trace, models) for each in findings if each.severity != "note"),
            outages=tuple(
                RememberedOutage(
                    f"link {outage.link}",
                    tuple(filter(None, outage.fault.split(" + "))),
                    outage.end,
                    outage.seconds,
                )
                for outage in outages[key].outages
            ),
            calls=() if judged.faults else tuple(replace(each, figures={}) for each in audited_calls(trace)),
        )


def _model_names(judgement: RunJudgement) -> Mapping[str, str]:
    """By model link the name of the model that answered on it, else the link's name."""
    links = [link.name for link in judgement.started.wired if link.is_model]
    names = {name: name for name in (*links, LAB_MODEL)}
    for event in judgement.events:
        if isinstance(event, Exchange) and event.of_model:
            names[event.link] = event.model or names.get(event.link, event.link)
    return names


def _at(link: str, operation: str, models: Mapping[str, str]) -> tuple[str, ...]:
    """The components of a request: its link, and the model or the tool behind it."""
    behind = f"model {models[link]}" if link in models else f"tool {link} {operation}"
    return f"link {link}", behind


def _faults(
    episode: JudgedEpisode, models: Mapping[str, str], planned: Mapping[str, Mapping[str, float]]
) -> Iterator[RememberedFault]:
    for record in episode.judged.faults:
        if record.source != "budget" and record.delivered is True:
            components = dict.fromkeys(
                component
                for request in episode.trace.requests
                if request.link_name == record.link and request.attempt == record.attempt
                if record.source == "toxic" or record.kind in request.fault_kinds
                for component in _at(record.link, operation_of(request), models)
            )
            yield RememberedFault(
                record.kind,
                record.link,
                tuple(components) or (f"link {record.link}",),
                # a gateway's evidence is what it observed, not the dose
                _numbers(record.attributes) if record.source == "toxic" else planned.get(record.entry, {}),
                record.entry,
            )


def _planned_parameters(started: RunStarted) -> Mapping[str, Mapping[str, float]]:
    """The parameters and the probability of each entry of the run's fault set; empty if it is unreadable."""
    settings = started.settings
    try:
        level = float(settings.get("chaos_level", 1.0))
        entries = read_canonical(str(settings.get("faults", "")), level).faults
    except (FaultSetError, ValueError, TypeError):  # of another version
        return {}
    return {
        entry.id or entry.fault.name: {
            **_numbers(entry.fault.model_dump(mode="json")),
            "probability": entry.when.probability,
        }
        for entry in entries
    }


def _numbers(attributes: Mapping[str, object]) -> Mapping[str, float]:
    """The numbers among the attributes that can be a dose."""
    return {
        name: float(value)
        for name, value in attributes.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _CODES
        if abs(value) <= _MAX_PARAMETER  # false for NaN, too
    }


def _used(calls: Iterable[LogicalCall], models: Mapping[str, str]) -> Mapping[str, bool | None]:
    used: dict[str, bool | None] = {}
    for call in calls:
        for component in _at(call.link, call.operation, models):
            used[component] = _both(used.get(component, True), call.ok)
    return used


def _both(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def _remembered(finding: Finding, trace: EpisodeTrace, models: Mapping[str, str]) -> RememberedFinding:
    components = dict.fromkeys(
        component
        for request in trace.requests_in(finding.evidence)
        for component in _at(request.link_name, operation_of(request), models)
    )
    return RememberedFinding(finding.rule, tuple(components))
