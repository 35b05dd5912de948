"""Compare a run that had a fault with the clean runs. Pure: no oracle, no reading of the prompt.

The findings come from ``judging.findings``; the clean runs are the control.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from msgspec import structs

from wirefault.audit.calls import Call, calls_in, same_way, varying_call
from wirefault.audit.question import Ask
from wirefault.audit.refused_writes import attempt_text, refusal, refused_writes
from wirefault.gateway.answered_writes import NOT_RECORDED
from wirefault.history.events import (
    Exchange,
    InterceptionFailed,
    PipeServer,
    WentPastLab,
)
from wirefault.history.judged_events import SEVERITIES, Finding
from wirefault.judging.checker import Observation
from wirefault.judging.findings.conduct import Conduct, conduct_in, masked
from wirefault.judging.findings.differences import (
    EXTRA_WRITES,
    MIN_CONTROL,
    ONE_FAILURE,
    Difference,
    differences,
    ending,
    ends_alike,
)
from wirefault.judging.findings.finding import times, worst_of
from wirefault.judging.findings.retries import SENT_AGAIN
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.judge import JudgedEpisode, RunJudgement, judge_trace, recorded_judgements
from wirefault.judging.subject_name import YOUR_AGENT
from wirefault.judging.trace import EpisodeTrace, traces_of
from wirefault.judging.writes import SentCount, sent_as_often, sent_counts, writes_in
from wirefault.wiring.links import Link
from wirefault.wiring.write_requests import IDEMPOTENT_METHODS, Corrections

Status = Literal["finding", "fine", "unknown"]
_SENT_AGAIN = SENT_AGAIN | {WRITE_REPEATED.name}
_LINK = re.compile(r" of \S+(?= was (?:executed|not\b))")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CONTROL = re.compile(r"\bin each of (\d+) control episodes\b")


def read_run(run: RunJudgement, corrections: Corrections) -> JudgedEpisode:
    """Read a run with one episode, its writes declared. Raises ``ValueError`` if it has not begun."""
    [trace] = [trace for trace in run.traces.values() if trace.episode]
    known = recorded_judgements(trace.records)
    if corrected := _corrected_links(trace, corrections):
        known, started = {}, structs.replace(run.started, links=corrected)
        [trace] = traces_of([("", started), *trace.records])
    judged = known.get(trace.episode) or judge_trace(trace)
    return JudgedEpisode(trace, judged, judged.findings)


def conduct_of(run: JudgedEpisode) -> Conduct | None:
    return conduct_in(run.trace, run.findings)


def _seconds(run: JudgedEpisode) -> float:
    end = run.trace.end_of(1)
    return end.event.ms / 1000 if end else 0.0


def _corrected_links(trace: EpisodeTrace, corrections: Corrections) -> list[Link]:
    """Declare the writes of each link on which the user's corrections change something; empty if none do.

    Everything else is judged as in every other command.
    """
    patterns: dict[str, dict[str, None]] = {}
    corrected: set[str] = set()
    for request in trace.requests:
        exchange = request.exchange
        if exchange is None or request.of_model or (exchange.message and not exchange.tool):
            continue
        declared = corrections.is_write(request.name, by_kind=request.is_write)
        if declared:
            patterns.setdefault(exchange.link, {})[request.name] = None
        if declared != request.is_write:
            corrected.add(exchange.link)
    links = [
        _declaring(link, tuple(patterns.get(link.name, ()))) if link.name in corrected else link
        for link in trace.links
    ]
    return links if corrected else []


def _declaring(link: Link, writes: tuple[str, ...]) -> Link:
    return link if link.is_of_lab else structs.replace(link, writes=writes, writes_declared=True)


@dataclass(frozen=True)
class CleanRuns:
    """The runs without faults, and what they show."""

    runs: Sequence[JudgedEpisode]

    @cached_property
    def calls(self) -> Sequence[Call]:
        return calls_in(self.runs[0].trace)

    @cached_property
    def conducts(self) -> list[Conduct]:
        return [conduct for run in self.runs if (conduct := conduct_of(run)) is not None]

    @property
    def problem(self) -> str:
        """Why the agent cannot be audited: it fails without any fault; empty if it can."""
        for run in self.runs:
            end = run.trace.end_of(1)
            if end is None:
                return "the command did not end"
            if run.judged.outcome == "invalid":
                return run.judged.why or "the lab failed"
            conduct = conduct_of(run)
            if conduct is None:
                return f"the command was still running after {_seconds(run):.0f} s"
            if conduct.exit:
                return f"the command fails without any fault: {end.event.error or conduct.exit}"
        return ""

    @property
    def varies(self) -> str:
        """A sentence about the call that differs between the runs; empty if none does."""
        return varying_call([calls_in(run.trace) for run in self.runs])

    @property
    def incomparable(self) -> str:
        """Why other runs cannot be compared with these; empty if they can."""
        conducts = self.conducts
        if len(conducts) < MIN_CONTROL:
            return "there are fewer than two clean runs"
        if any(conduct.past_lab for conduct in conducts):
            return "connections bypassed the lab"
        counts = [{count.call: (count.executed, count.maybe) for count in c.calls} for c in conducts]
        if any(each != counts[0] for each in counts) or any(maybe for _, maybe in counts[0].values()):
            return "the clean runs differ in their writes"
        return ""

    @property
    def seconds(self) -> float:
        return max(map(_seconds, self.runs))

    @property
    def unreachable(self) -> list[str]:
        """A sentence for each connection that no fault can reach."""
        events = [event for run in self.runs for event in run.trace.events]
        missed = [event.text for event in events if isinstance(event, InterceptionFailed)]
        missed += [
            f"{event.host}:{event.port} was reached past the lab"
            for event in events
            if isinstance(event, WentPastLab)
        ]
        return [*dict.fromkeys(missed), *self.pipe_servers]

    @property
    def pipe_servers(self) -> list[str]:
        """A clause for each MCP server over a pipe that no fault can reach."""
        events = [event for run in self.runs for event in run.trace.events]
        return list(dict.fromkeys(event.text for event in events if isinstance(event, PipeServer)))

    @cached_property
    def sends(self) -> Sequence[Sequence[SentCount]]:
        """The requests that each run sent several times."""
        return [sent_counts(run.trace) for run in self.runs]

    @property
    def usual(self) -> frozenset[tuple[str, str]]:
        """The findings that the runs have without faults."""
        return frozenset(
            (finding.rule, masked(finding.text)) for run in self.runs for finding in run.judged.findings
        )


@dataclass(frozen=True)
class FaultedRun:
    """One run with a fault, compared with the clean runs."""

    run_id: str
    status: Status
    seen: tuple[Finding, ...] = ()
    why: str = ""
    """Why it is unknown."""
    another_way: bool = False
    """The agent did not make the clean run's calls up to the fault."""
    seconds: float = 0.0
    requests: int = 0
    """More requests than the clean run made."""
    note: str = ""
    """How it differed from the clean run, without known harm."""


def read_faulted(run: JudgedEpisode, ask: Ask, clean: CleanRuns) -> FaultedRun:
    """Compare a run that had the question's fault with the clean runs."""
    seconds, calls, conduct = _seconds(run), calls_in(run.trace), conduct_of(run)
    more = len(run.trace.exchanges) - len(clean.runs[0].trace.exchanges)

    def unknown(why: str, *, another_way: bool = False) -> FaultedRun:
        return FaultedRun(run.run_id, "unknown", (), why, another_way, seconds, more)

    refused = refused_writes(run.trace)
    if run.judged.outcome == "invalid" and not refused:
        return unknown(run.judged.why or "the lab failed")
    records = [record for record in run.judged.faults if record.entry == ask.id]
    injected = [record for record in records if record.reached("injected")]
    if not injected:
        if not same_way(calls, clean.calls, ask.call):
            return unknown("the agent took another way before the fault", another_way=True)
        reasons = sorted({record.why_not.replace("_", " ") for record in records if record.why_not})
        return unknown(f"the fault was not injected: {', '.join(reasons) or 'the call did not come'}")
    if not same_way(calls, clean.calls, ask.call):
        return unknown("the agent took another way before the fault", another_way=True)
    seen = tuple(_seen(run, conduct, ask, clean))
    if refused:
        seen = tuple(_seen_before(run, seen, refused[0].start)) or _attempted(run, conduct, refused[0], clean)
        if not seen:
            return unknown(refusal(run.trace, refused[0]))
    if seen:
        return FaultedRun(run.run_id, "finding", seen, "", False, seconds, more)
    if conduct is None:
        return unknown(f"it was still running after {seconds:.0f} s")
    if clean.incomparable:
        return unknown(clean.incomparable)
    note = run_note(conduct, clean) or _planted(run, calls, conduct, ask) or _executed_twice(run)
    return FaultedRun(run.run_id, "fine", (), "", False, seconds, more, note)


def _seen_before(run: JudgedEpisode, seen: Iterable[Finding], moment: float) -> Iterator[Finding]:
    """Yield the findings whose evidence was complete before Wirefault refused a write.

    Later ones may be about the refusal, which is not the agent's failure.
    """
    ends = {id: request.end for request in run.trace.requests for id in request.ids}
    for each in seen:
        if each.evidence and all(ends.get(id, math.inf) <= moment for id in each.evidence):
            yield each


def _attempted(
    run: JudgedEpisode, conduct: Conduct | None, refused: Exchange, clean: CleanRuns
) -> tuple[Finding, ...]:
    """Return the finding about a further write to a server that the clean runs write to.

    Empty if it may replace a write that was not carried out, or if a repetition changes nothing more.
    """
    written = {call.key.link for call in clean.calls if call.kind == "write"}
    is_further = refused.link in written and refused.method not in IDEMPOTENT_METHODS
    if conduct is None or clean.incomparable or not is_further or refused.error != NOT_RECORDED:
        return ()
    if _not_carried_out(conduct, clean.conducts[0]):
        return ()
    text = f"{attempt_text(refused)}, never in the clean runs; Wirefault refused it"
    ids = [id for request in run.trace.requests if request.exchange is refused for id in request.ids]
    return (Difference(EXTRA_WRITES, Observation(text, tuple(ids), "risky")).finding(YOUR_AGENT),)


def run_note(conduct: Conduct | None, clean_runs: CleanRuns) -> str:
    """Say which of the clean runs' writes were not carried out, and how the run ended or what it answers."""
    if conduct is None:
        return ""
    clean = clean_runs.conducts
    ended = f"it {conduct.exit}" if conduct.exit else f"it answers {conduct.text!r}"
    if missing := _not_carried_out(conduct, clean[0]):
        return f"{missing}, and {ended}"
    if conduct.exit:
        return ended
    steady = all(each.answer == clean[0].answer for each in clean)
    return f"in other words {ended}" if steady and not ends_alike(conduct, clean[0]) else ""


def _planted(run: JudgedEpisode, calls: Sequence[Call], conduct: Conduct, ask: Ask) -> str:
    """Say that the answer has a planted figure, although a later reply of the run has the right one."""
    if not ask.call.shared_field:
        return ""
    faults = [fault for exchange in run.trace.exchanges for fault in exchange.faults]
    planted = next((fault.evidence for fault in faults if fault.id == ask.id and fault.injected), {})
    original, changed = (str(planted.get(name)) for name in ("original", "changed"))
    numbers = set(_NUMBER.findall(conduct.text))
    others = {f"{value:g}" for call in calls if call.key != ask.call.key for value in call.figures.values()}
    if changed in numbers and original not in numbers and f"{float(original):g}" in others:
        return f"it answers with the wrong {changed}, although a later reply has {original}"
    return ""


def _executed_twice(run: JudgedEpisode) -> str:
    """Say that a server executed each of several deliveries of one request."""
    for write in writes_in(run.trace):
        executed = write.fates.count("executed")
        if executed > 1 and not write.key and not write.repeatable:
            name = write.call.rpartition(" of ")[0]
            return (
                f"the server executed {name} {times(executed)}: no Idempotency-Key lets it recognize a copy"
            )
    return ""


def _not_carried_out(conduct: Conduct, clean: Conduct) -> str:
    """Say which of the clean run's writes this run carried out less often, the first one; empty if none."""
    for count in clean.calls:
        here = conduct.count_of(count.call)
        most = here.executed + here.maybe if here else 0
        if most < count.executed:
            name = count.call.rpartition(" of ")[0]
            if not most:
                return f"{name} was not carried out"
            at_most = "at most " if here and here.maybe else ""
            return f"{name} was carried out {at_most}{times(most)}, not {times(count.executed)}"
    return ""


def _seen(run: JudgedEpisode, conduct: Conduct | None, ask: Ask, clean: CleanRuns) -> Iterable[Finding]:
    usual, once = clean.usual, not ask.question.lasting
    as_often = {id for count in sent_as_often(sent_counts(run.trace), clean.sends) for id in count.ids}
    seen = [
        structs.replace(finding, text=_in_words(finding.text, ask.call), episode="")
        for finding in run.judged.findings
        if finding.severity != "note"
        and (finding.rule, masked(finding.text)) not in usual
        and not (finding.rule in _SENT_AGAIN and as_often.intersection(finding.evidence))
    ]
    if conduct is not None:
        for difference in differences(conduct, clean.conducts):
            observation = difference.observation
            severity = observation.severity or difference.rule.severity
            if severity != "note" and (once or difference.rule is not ONE_FAILURE):
                seen.append(difference.finding(YOUR_AGENT, text=_in_words(observation.text, ask.call)))
        missing = _not_carried_out(conduct, clean.conducts[0])
        how = ending(conduct, clean.conducts)
        if once and how and missing and not any(s.rule == ONE_FAILURE.name for s in seen):
            text = f"it happened once, {missing}, and {how}"
            ended = Difference(ONE_FAILURE, Observation(text, (conduct.end_id,)))
            seen.append(ended.finding(YOUR_AGENT))
    return sorted(seen, key=lambda each: SEVERITIES.index(each.severity))


def _in_words(text: str, call: Call) -> str:
    """Return the finding's text after the question: the faulted call is ``it``."""
    text = _LINK.sub("", text)
    text = _CONTROL.sub(r"in each of \1 clean runs", text).replace(
        "as in the control", "as in the clean runs"
    )
    name = f"{call.key.name} "
    return "it " + text.removeprefix(name) if text.startswith(name) else text


@dataclass(frozen=True)
class Answer:
    """The answer to one question, by all of its runs."""

    ask: Ask
    runs: tuple[FaultedRun, ...] = ()
    not_asked: str = ""

    @property
    def counted(self) -> list[FaultedRun]:
        """The runs that met the fault where it was planned, or all if there is none."""
        return [run for run in self.runs if not run.another_way] or list(self.runs)

    @property
    def status(self) -> Status:
        statuses = [run.status for run in self.counted]
        if "finding" in statuses:
            return "finding"
        return "unknown" if not statuses or "unknown" in statuses else "fine"

    @property
    def worst(self) -> Finding | None:
        """The most severe finding of any of its runs."""
        return worst_of(each for run in self.counted for each in run.seen)

    @property
    def others(self) -> list[Finding]:
        """Its other findings, one of each rule."""
        worst = self.worst
        rules = {worst.rule} if worst else set()
        others: dict[str, Finding] = {}
        for run in self.counted:
            for each in run.seen:
                if each.rule not in rules:
                    others.setdefault(each.rule, each)
        return list(others.values())

    @property
    def seen(self) -> list[Finding]:
        """Its findings, one of each rule, the worst first."""
        return [self.worst, *self.others] if self.worst else []

    @property
    def times(self) -> tuple[int, int]:
        """In how many runs the worst finding was seen, and of how many."""
        worst = self.worst
        rule = worst.rule if worst else ""
        return sum(any(each.rule == rule for each in run.seen) for run in self.counted), len(self.counted)

    @property
    def why(self) -> str:
        """Why the answer is unknown."""
        return next((run.why for run in self.counted if run.why), "")

    @property
    def note(self) -> str:
        """How a run without a finding differed from the clean runs."""
        return next((run.note for run in self.counted if run.note), "")

    @property
    def shown_run(self) -> FaultedRun | None:
        """The run that shows the answer."""
        rule = self.worst.rule if self.worst else ""
        of_rule = [run for run in self.counted if any(each.rule == rule for each in run.seen)]
        return next(iter([*of_rule, *self.counted]), None)


def writes_by_host(runs: Sequence[JudgedEpisode]) -> Mapping[str, list[str]]:
    """Return the names of the executed writes by the upstream that carried them out."""
    by_host: dict[str, dict[str, None]] = {}
    for run in runs:
        for call in calls_in(run.trace):
            if call.kind == "write" and call.key.link in run.trace.links:
                upstream = run.trace.links[call.key.link].upstream
                by_host.setdefault(upstream, {})[call.key.name] = None
    return {upstream: list(names) for upstream, names in by_host.items()}
