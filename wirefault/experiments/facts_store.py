"""The facts of an experiment's runs: computed once, remembered, and kept in files when it ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

from msgspec import Struct, convert, to_builtins

from wirefault.core.files import read_shared, replace_shared
from wirefault.experiments.assertions.on_arm import assert_on_episode, needs_users_code
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.episode_view import episode_views
from wirefault.experiments.facts import EpisodeFacts, RunFacts, why_cut_short
from wirefault.experiments.logical_calls import calls_in
from wirefault.experiments.measured import OfEpisode
from wirefault.experiments.outages import EpisodeOutages, outages_in
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    BudgetSpent,
    BudgetUnknown,
    EpisodeJudged,
    Event,
    Exchange,
    WentPastLab,
)
from wirefault.history.judged_events import (
    Costs,
    FaultRecord,
    Finding,
)
from wirefault.history.reader import GrowingRun, HistoryError, read_run
from wirefault.history.writer import MAX_HISTORY_BYTES
from wirefault.judging.findings.conduct import conduct_in
from wirefault.judging.findings.retries import SENT_AGAIN, kept_retry_after
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.judge import RunJudgement, judge_run
from wirefault.judging.rates import is_unchecked_claim
from wirefault.judging.reproducible import what_decides
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import SentCount, WriteCount, sent_counts, write_counts
from wirefault.settings.budgets import Budgets, Price, load_budgets, load_prices
from wirefault.toxiproxy.planned import PlannedToxic

_PACKAGE = Path(__file__).parents[1]
# of the judgements that a store remembers, and of those that it remembers for a page
_MAX_EPISODES, _MAX_SHOWN_EPISODES = 400, 4000


class _CachedFacts(Struct, frozen=True):
    """Cached facts; ``of`` identifies their inputs."""

    of: str
    facts: RunFacts


class FactsStore:
    """The facts of an experiment's runs, in memory. An experiment that ended has its own in ``folder``.

    The files are used only if they are ``trusted``: signed, so that they are unaltered. ``runs_code``:
    whether the plan's functions may be called.
    """

    def __init__(self, logs: Path, folder: Path, *, trusted: bool = False, runs_code: bool = True) -> None:
        self.runs_code = runs_code
        self._logs = logs
        self._folder = folder
        self._trusted = trusted
        self._facts: dict[str, _CachedFacts] = {}
        self.keeps_judgements = False
        """Whether ``judgement`` is going to be called for all runs whose facts are read."""
        self._judgements: dict[str, tuple[str, RunJudgement]] = {}
        self._growing: dict[str, GrowingRun] = {}
        self._remembering = Lock()  # the threads of an experiment's lanes share its store

    def new_events(self, run_id: str, count: int) -> list[tuple[str, Event]]:
        """The events of a run that is being watched, with their ids, without the first ``count``."""
        return self._growing.setdefault(run_id, GrowingRun(self._logs, run_id)).since(count)

    def end_watch(self, run_id: str, entries: Sequence[AssertionEntry]) -> None:
        """Forget the events of a run that is complete, but not its facts."""
        if not _need_users_code(entries):
            self.read(run_id, entries)
        self._growing.pop(run_id, None)

    def judgement(self, run_id: str) -> RunJudgement:
        """Return the judgement of a run without its control, made once while there is room for it.

        Raises ``HistoryError``, ``ValueError`` or ``OSError`` if it cannot be read.
        """
        state = _state_of(self._logs / "runs" / run_id)
        known, judgement = self._judgements.get(run_id, ("", None))
        if judgement is None or known != state:
            growing = self._growing.get(run_id)
            events = growing.events() if growing else read_run(self._logs, run_id)
            judgement = judge_run(events)
            with self._remembering:
                remembered = sum(len(each.episodes) for _, each in self._judgements.values())
                if remembered < (_MAX_SHOWN_EPISODES if self.keeps_judgements else _MAX_EPISODES):
                    self._judgements[run_id] = state, judgement
        return judgement

    def read(self, run_id: str, entries: Sequence[AssertionEntry]) -> RunFacts:
        """The facts of a run. An unreadable run has no episodes and a ``problem``."""
        keep = not _need_users_code(entries)
        worked_out_from = f"{_code()} {_state_of(self._logs / 'runs' / run_id)} {list(entries)}"
        if keep and run_id not in self._facts and self._trusted:
            cached = self._read_file(run_id)
            if cached is not None:
                self._facts[run_id] = cached
        if keep and run_id in self._facts and self._facts[run_id].of == worked_out_from:
            return self._facts[run_id].facts
        try:
            facts = facts_in(run_id, self.judgement(run_id), entries, self.runs_code)
        except (HistoryError, ValueError, OSError) as error:
            problem = f"the history of {run_id} cannot be read: {error}"
            return RunFacts(run_id, problem=problem, is_readable=False)
        if keep:
            self._facts[run_id] = _CachedFacts(worked_out_from, facts)
        return facts

    def write(self) -> None:
        """Write the facts of all runs that were read. Raises ``OSError``."""
        for run_id, cached in self._facts.items():
            data = json.dumps(to_builtins(cached), separators=(",", ":"))  # msgspec has null for infinity
            replace_shared(self._logs, self._path(run_id), data.encode())

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"

    def _read_file(self, run_id: str) -> _CachedFacts | None:
        try:
            data = read_shared(self._logs, self._path(run_id), MAX_HISTORY_BYTES)
            return convert(json.loads(data), _CachedFacts)
        except (OSError, ValueError, RecursionError):
            return None


def _need_users_code(entries: Sequence[AssertionEntry]) -> bool:
    return any(needs_users_code(parse_assertion(entry)) for entry in entries)


def _state_of(run: Path) -> str:
    """Changes with every change of the run's files."""
    collected = sorted((path.name, path.stat()) for path in run.glob("*"))
    return " ".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in collected)


@cache
def _code() -> str:
    """Changes with the judging code."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def facts_of(
    run_id: str, events: Sequence[Event], entries: Sequence[AssertionEntry] = (), *, runs_code: bool = True
) -> RunFacts:
    """Compute the facts of a run and check the assertions ``entries``, functions only if ``runs_code``.

    Raises ``ValueError`` without its beginning.
    """
    return facts_in(run_id, judge_run(events), entries, runs_code)


def facts_in(
    run_id: str, judgement: RunJudgement, entries: Sequence[AssertionEntry], runs_code: bool
) -> RunFacts:
    assertions = [parse_assertion(entry) for entry in entries]
    views = {view.episode: view for view in episode_views(judgement)} if assertions else {}
    outages = outages_in(judgement.traces.values())
    settings = judgement.started.settings
    prices = load_prices(str(settings.get("prices", "")))
    budgets = load_budgets(str(settings.get("budgets", "")))
    finished = judgement.finished
    return RunFacts(
        run_id,
        tuple(
            _facts(
                judged,
                judgement.traces[judged.episode],
                outages[judged.episode],
                prices,
                budgets,
                tuple(
                    assert_on_episode(assertion, views.get(judged.episode), runs_code=runs_code)
                    for assertion in assertions
                ),
            )
            for judged in judgement.episodes
        ),
        judgement.started.prompts,
        why_cut_short(run_id, finished),
        invalid_because=tuple(judgement.valid_account.invalid_because),
        toxics_left=finished.toxics_left if finished else None,
        decided_by=tuple(what_decides(judgement)),
    )


def _facts(
    judged: EpisodeJudged,
    trace: EpisodeTrace,
    outages: EpisodeOutages,
    prices: Mapping[str, Price],
    budgets: Budgets | None,
    asserted: tuple[OfEpisode, ...],
) -> EpisodeFacts:
    events = trace.events
    calls, failed_calls, tries = calls_in(trace, prices, whole=outages.whole)
    spent = [event for event in events if isinstance(event, BudgetSpent)]
    reasons = [event.invalid for event in events if isinstance(event, AttemptHealed) and event.invalid]
    writes, sends = write_counts(trace), sent_counts(trace)
    graver = [finding for finding in judged.findings if finding.severity != "note"]
    repeats = [finding for finding in graver if finding.rule == WRITE_REPEATED.name]
    sent_again = [finding for finding in graver if finding.rule in SENT_AGAIN]
    return EpisodeFacts(
        judged,
        trace.last(EpisodeJudged) is not None,
        reasons[-1] if reasons else "",
        tuple(event.ms / 1000 for event in trace.all(AttemptEnded)),
        sum(isinstance(event, Exchange) and event.of_model for event in events),
        len(spent),
        any(isinstance(event, BudgetUnknown | WentPastLab) for event in events),
        sum(event.of_subject for event in spent) + _struck_by_budgets(judged.faults),
        outages,
        tuple(sorted(set(_drawn(events)))),
        tuple(sorted(set(_shadows(events)))),
        asserted,
        tuple(_with_cause(count, repeats) for count in writes if count.executed + count.maybe),
        tuple(_with_cause(count, sent_again) for count in sends),
        conduct_in(trace, graver),
        failed_calls,
        _unseen_writes(trace),
        is_unchecked_claim(judged.outcome, judged.claim, trace.has_oracle),
        calls,
        tries,
        _overshoot(events, budgets, judged.costs),
        kept_retry_after(trace),
    )


def _overshoot(events: Iterable[Event], budgets: Budgets | None, costs: Costs) -> float | None:
    """The largest share by which the episode exceeded one of its budgets; 0 if it kept them.

    The request that reaches a limit of tokens or cost is forwarded, since its usage is known only afterwards.
    """
    limits = {} if budgets is None else budgets.episode.model_dump(exclude_none=True)
    events = list(events)
    if not limits or any(isinstance(event, BudgetUnknown | WentPastLab) for event in events):
        return None
    used = {
        event.budget.partition(".")[2]: event.used
        for event in events
        if isinstance(event, BudgetSpent) and event.budget.startswith("episode.")
    }
    used["tokens"] = max(used.get("tokens", 0), costs.tokens or 0)
    used["cost"] = max(used.get("cost", 0), costs.usd or 0)
    return float(max(0.0, *(used.get(name, 0) / limit - 1 for name, limit in limits.items())))


def _unseen_writes(trace: EpisodeTrace) -> str:
    """Which connections to links that take writes could not be read; empty if there are none."""
    writing = {link.name for link in trace.links if link.writes or not link.writes_declared}
    unread = dict.fromkeys(past.event.text for past in trace.past_lab if past.event.link in writing)
    return f"writes may have gone unseen: {'; '.join(unread)}" if unread else ""


_Count = TypeVar("_Count", WriteCount, SentCount)


def _with_cause(count: _Count, repeats: Sequence[Finding]) -> _Count:
    return replace(count, caused=sum(not set(count.ids).isdisjoint(each.evidence) for each in repeats))


def _struck_by_budgets(records: Iterable[FaultRecord]) -> int:
    return sum(record.source == "budget" and record.delivered is True for record in records)


def _drawn(events: Iterable[Event]) -> Iterable[str]:
    for event in events:
        if isinstance(event, Exchange):
            yield from (_fault(entry.id, "ERROR_PROB") for entry in event.faults)
        elif isinstance(event, AttemptArmed):
            yield from (_toxic(toxic) for toxic in event.toxics)


def _shadows(events: Iterable[Event]) -> Iterable[tuple[str, str]]:
    for event in events:
        if isinstance(event, Exchange):
            yield from ((shadow.arm, _fault(shadow.id, "ERROR_PROB")) for shadow in event.shadows)
        elif isinstance(event, AttemptArmed):
            yield from ((shadow.arm, _toxic(shadow.toxic)) for shadow in event.shadows)


def _toxic(toxic: PlannedToxic) -> str:
    return _fault(toxic.entry, f"TOXIC_PROB: {toxic.kind}")


def _fault(entry: str, drawn_by: str) -> str:
    """The entry's id, or the setting that drew the fault."""
    return entry or drawn_by
