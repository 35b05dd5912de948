"""The result of an audit, and how it is read back from the histories of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import structs
from msgspec.json import decode

from wirefault.audit.answers import Answer, CleanRuns, read_faulted, read_run
from wirefault.audit.calls import Call
from wirefault.audit.options import MAX_PATIENCE_S, WritesMode, is_audit, load_options
from wirefault.audit.question import PLACES, About, Ask, plan_asks
from wirefault.audit.questions import QUESTIONS
from wirefault.audit.spending import Prices, Spending, estimate, spending
from wirefault.core.errors import LAB_FAILED, UNKNOWN, InputError
from wirefault.experiments.index import early_word
from wirefault.experiments.recorded import Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.gateway.answered_writes import WritesDocument
from wirefault.gateway.replayed_model import ReplayDocument
from wirefault.history.events import Exchange, RunSealed
from wirefault.history.judged_events import SEVERITIES, Finding
from wirefault.history.reader import HistoryError
from wirefault.judging.ending import FailOn, ending
from wirefault.judging.findings.finding import worst_finding
from wirefault.judging.judge import JudgedEpisode
from wirefault.settings.settings import Settings
from wirefault.wiring.write_requests import Corrections

CLEAN_RUNS = 2
_ABOUT: Mapping[About, str] = {"write": "writes", "read": "reads", "model": "model", "mcp": "MCP"}


@dataclass
class AuditResult:
    """The answers of an audit so far."""

    saved: SavedExperiment
    clean: CleanRuns | None = None
    answers: list[Answer] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    """All questions, asked or not."""
    problem: str = ""
    """Why nothing could be asked."""
    code: int = LAB_FAILED
    is_recorded: bool = False
    """Whether it was read back from its histories."""
    seconds: float | None = None
    """How long the audit took; None of a recorded one."""
    patience: float = MAX_PATIENCE_S
    sequential: str = ""
    """Why runs were made one after another."""
    writes: WritesMode = "real"
    """Who carries out writes in runs with faults."""
    replayed: Sequence[str] = ()
    """The links whose model replies before the fault are the clean run's."""
    exchanges: list[Exchange] = field(default_factory=list)
    """All requests of all runs so far."""
    prices: Prices = field(default_factory=lambda: Prices({}))
    replies_not_kept: int = 0
    """Recorded replies to writes that have secrets: no later run can repeat them."""

    @cached_property
    def early(self) -> str:
        """The word of a recorded one without its end, see ``judging.ending``; empty for others."""
        return early_word(self.saved.logs, self.saved.experiment_id) if self.is_recorded else ""

    @property
    def spent(self) -> Spending:
        """The cost of all runs' model requests."""
        return spending(self.exchanges, self.prices)

    @property
    def planned(self) -> list[Ask]:
        """The question of each run with a fault, unless runs differ."""
        return [ask for ask in self.asks for _ in range(ask.runs)]

    def estimate(self, runs: Iterable[Ask]) -> Spending:
        """Estimate the model requests of runs with a fault, by the clean run."""
        clean = self.clean.runs[0].trace.exchanges if self.clean else ()
        return estimate(runs, clean, self.replayed, self.prices)

    @property
    def shows_nothing(self) -> str:
        """Why no answer is known; empty if one is."""
        if self.problem or not self.asks:
            return self.problem or "the audit has no question"
        if not self.answers:
            return "the audit asked nothing"
        known = any(answer.status != "unknown" for answer in self.answers)
        return "" if known else "no answer of the audit is known"

    @property
    def unknown(self) -> str:
        """How many answers are unknown; empty if all are known."""
        count = len(self.asks) - sum(answer.status != "unknown" for answer in self.answers)
        return f"{count} of {len(self.asks)} answers of the audit are unknown" if count else ""

    def ending(self, fail_on: FailOn = "risky", *, dry_run: bool = False) -> int:
        """The exit code, see ``judging.ending``. A dry run asks nothing."""
        if self.code:
            return self.code
        if self.problem or not self.asks:
            return UNKNOWN
        if dry_run:
            return 0
        severities = (each.worst.severity for each in self.answers if each.worst)
        return ending(severities, fail_on, known=not self.unknown)


def recorded_runs(saved: SavedExperiment, corrections: Corrections) -> dict[str, JudgedEpisode]:
    """Return the complete runs of an audit, by their episodes."""
    return {run.trace.episode: run for run in complete_runs(saved, corrections)}


def complete_runs(saved: SavedExperiment, corrections: Corrections) -> list[JudgedEpisode]:
    """Return the complete runs of an audit, in their order."""
    [arm] = saved.plan.arms
    runs = (complete_run(saved, run_id, corrections) for run_id in saved.run_ids(arm))
    return [run for run in runs if run is not None]


def complete_run(saved: SavedExperiment, run_id: str, corrections: Corrections) -> JudgedEpisode | None:
    """Return a run of an audit; None if it has not come to its end, to which all processes have written."""
    try:
        judgement = saved.facts.judgement(run_id)
        run = read_run(judgement, corrections)
    except (HistoryError, OSError, ValueError):  # killed at its beginning
        return None
    completed = judgement.finished is not None and judgement.finished.completed
    is_sealed = any(isinstance(event, RunSealed) for event in judgement.events)
    return run if completed and is_sealed else None


class NoCleanRuns(InputError):
    """The clean runs of an audit, which decide what a finding is, did not complete."""


def read_audit(saved: SavedExperiment) -> AuditResult:
    """Return the result of a saved audit by its histories.

    Raises ``NoCleanRuns`` without clean runs, ``InputError`` if its options cannot be read.
    """
    options, result = load_options(saved), AuditResult(saved, code=0, is_recorded=True)
    recorded = recorded_runs(saved, options.corrections)
    keys = [clean_key(number) for number in range(1, CLEAN_RUNS + 1)]
    if not all(key in recorded for key in keys):
        raise NoCleanRuns(f"{saved.experiment_id}: its clean runs did not complete")
    clean = result.clean = CleanRuns([recorded[key] for key in keys])
    result.patience = options.patience_after(clean)
    [arm] = saved.plan.arms
    result.exchanges = [exchange for run in recorded.values() for exchange in run.trace.exchanges]
    result.prices = options.prices(arm.settings)
    result.sequential = clean.varies
    result.writes, result.replayed = _ways_of(arm.settings)
    result.asks = list(plan_asks(options.chosen, clean.calls))
    for ask in result.asks:
        runs = [recorded[key] for number in (1, 2, 3) if (key := question_key(ask, number)) in recorded]
        if runs:
            answered = tuple(read_faulted(run, ask, clean) for run in runs)
            result.answers.append(Answer(ask, answered))
    return result


def _ways_of(settings: Settings) -> tuple[WritesMode, Sequence[str]]:
    """Return who carries out writes in runs with faults, and the links with a replayed model."""
    try:
        writes = decode(settings.audit_writes, type=WritesDocument) if settings.audit_writes else None
        model = decode(settings.audit_model, type=ReplayDocument) if settings.audit_model else None
    except ValueError as error:
        raise InputError(f"the audit's plan cannot be read: {error}") from None
    answered = writes is not None and writes.mode == "answer" and not writes.only_beyond
    return "answer" if answered else "real", model.links if model else ()


def audit_findings(saved: SavedExperiment) -> dict[str, list[Finding]]:
    """Return the audit's findings in each run with a fault, by its episode."""
    runs = {
        question_key(answer.ask, number): (answer.ask, run)
        for answer in read_audit(saved).answers
        for number, run in enumerate(answer.runs, start=1)
    }
    return {key: [as_finding(seen, ask, key) for seen in run.seen] for key, (ask, run) in runs.items()}


def findings_if_audit(saved: SavedExperiment | None) -> dict[str, list[Finding]] | None:
    """Return an audit's findings by episode; None if the findings of its runs count.

    They count in any other recording, and if the clean runs did not complete. Raises ``InputError`` if the
    audit's options cannot be read.
    """
    if saved is None or not is_audit(saved):
        return None
    try:
        return audit_findings(saved)
    except NoCleanRuns:
        return None


def answer_findings(saved: SavedExperiment) -> list[Finding]:
    """Return the findings as the audit counts them: one of each question and rule, where it was seen.

    The worst come first.
    """
    findings = (
        as_finding(seen, answer.ask, question_key(answer.ask, 1 + _place(answer, seen)))
        for answer in read_audit(saved).answers
        for seen in answer.seen
    )
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))


def worst_so_far(recording: Recording) -> str:
    """Return severity and rule of a recording's worst finding; empty without one. Raises ``InputError``."""
    saved = recording.experiment
    if saved is not None and is_audit(saved):
        try:
            return worst_finding(answer_findings(saved))
        except NoCleanRuns:
            return ""
    return worst_finding(each for arm in recording.arms.values() for each in arm.summary.findings)


def _place(answer: Answer, seen: Finding) -> int:
    return next(place for place, run in enumerate(answer.runs) if seen in run.seen)


def recorded_ending(saved: SavedExperiment, fail_on: FailOn) -> int:
    """The exit code of a saved audit by its histories."""
    try:
        return read_audit(saved).ending(fail_on, dry_run=load_options(saved).dry_run)
    except NoCleanRuns:
        return UNKNOWN


def as_finding(seen: Finding, ask: Ask, episode: str) -> Finding:
    """Return it as a finding of a run, whose sentence names the call."""
    is_about_call = seen.text.startswith("it ") and not seen.text.startswith("it happened once")
    text = f"{ask.call.text} {seen.text[3:]}" if is_about_call else seen.text
    return structs.replace(seen, text=text, episode=episode)


def clean_key(number: int) -> str:
    return "clean" if number == 1 else f"clean.r{number}"


def question_key(ask: Ask, number: int) -> str:
    return ask.id if number == 1 else f"{ask.id}.r{number}"


def not_asked(result: AuditResult) -> list[str]:
    """Return the questions that fit no call, with the reason, and how many more --all asks."""
    if result.clean is None:
        return []
    calls, questions = result.clean.calls, load_options(result.saved).chosen
    chosen = {ask.question.name for ask in result.asks}
    missing = {about: name for about, name in _ABOUT.items() if not any(_is_about(c, about) for c in calls)}
    reasons: dict[str, None] = {}
    for question in questions:
        if question.name in chosen:
            continue
        if question.about == "mcp" and result.clean.pipe_servers:
            continue  # these are named below
        if question.about in missing:
            reasons[f"{missing[question.about]} (none)"] = None
        elif question.needs_stream and not any(call.streams for call in calls):
            reasons[f"{question.name} (answers do not stream)"] = None
        else:
            reasons[f"{question.name} (no call there: {PLACES[question.where].text})"] = None
    reasons.update(dict.fromkeys(result.clean.pipe_servers))
    others = len([name for name in QUESTIONS if name not in {q.name for q in questions}])
    return [*reasons, f"{others} more with --all"] if others else [*reasons]


def _is_about(call: Call, about: About) -> bool:
    return call.of_mcp if about == "mcp" else call.kind == about
