"""The strategy of an audit: the clean runs, then each question until its runs agree. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Literal

from msgspec import structs

from wirefault.audit.answers import Answer, CleanRuns, FaultedRun, read_faulted, writes_by_host
from wirefault.audit.options import MAX_PATIENCE_S, AuditOptions, WritesMode
from wirefault.audit.question import Ask, plan_asks
from wirefault.audit.result import CLEAN_RUNS, AuditResult, clean_key, complete_run, question_key
from wirefault.audit.spending import spending, with_money
from wirefault.experiments.cost import Cost, taken
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.strategy import Batch, Progress, Strategy, Trial
from wirefault.faults.sets.presets import canonical_text
from wirefault.gateway.answered_writes import WritesDocument, stays_here
from wirefault.gateway.replayed_model import ReplayDocument
from wirefault.judging.judge import JudgedEpisode
from wirefault.settings.settings import Settings
from wirefault.wiring.links import STDIO, Links
from wirefault.wiring.prompts import Prompt

_MARGIN_S = 30.0
_BY_CLEAN_RUN = "by the clean run, one run with a fault after another"


@dataclass
class ReplyFiles:
    """The files with the first clean run's replies, and the audit's copies of them without secrets."""

    folder: Path
    """The audit's."""
    writes: Path = Path()
    model: Path = Path()

    @property
    def writes_copy(self) -> Path:
        return (self.folder / "writes.jsonl").absolute()

    @property
    def model_copy(self) -> Path:
        return (self.folder / "model.jsonl").absolute()


@dataclass(frozen=True)
class Questions:
    """The questions after the clean runs, and how they are asked."""

    asks: Sequence[Ask]
    patience: float
    """Seconds of a hang."""
    limit: float
    """Seconds after which a run is stopped."""
    writes: WritesMode
    replayed: Sequence[str]
    """The links whose model replies before the fault are the clean run's."""
    problem: str
    """Why nothing may be asked; empty if something may."""
    faults: str
    """One fault set with an entry for each question, which is met in that question's episodes."""


def questions_after(clean: CleanRuns, options: AuditOptions, links: Links) -> Questions:
    """Plan the questions by the calls of the clean runs."""
    asks, patience = list(plan_asks(options.chosen, clean.calls)), options.patience_after(clean)
    hosts = writes_by_host(clean.runs)
    beyond = next((upstream for upstream in hosts if not stays_here(upstream)), "")
    writes = options.mode or ("answer" if beyond else "real")
    problem, replayed = "", list[str]()
    if not clean.calls:
        past = [f"; not asked: {server}" for server in clean.pipe_servers]
        problem = "the command made no call that the lab can fault" + "".join(past)
    elif not asks:
        problem = "no question fits the calls of the command"
    else:
        replayed = _replayed(clean, options.replay)
    if problem:
        writes = "real"
    elif writes == "real" and beyond and not options.confirmed:
        problem = (
            f"--writes real: it writes to {beyond}, not this machine, and each run would write there"
            " again; add --yes if that is what you want"
        )
    elif options.mode == "answer" and STDIO in hosts:
        problem = (
            f"--writes answer: {', '.join(hosts[STDIO])} of an MCP server over a pipe cannot be answered"
            " in its place; leave the option out"
        )
    limit = 3 * clean.seconds + patience + _MARGIN_S
    entries = [ask.question.entry(ask.id, ask.call, patience) for ask in asks]
    faults = str(canonical_text({"faults": entries}, links))
    return Questions(asks, patience, limit, writes, replayed, problem, faults)


def _replayed(clean: CleanRuns, wanted: bool | None) -> list[str]:
    links = clean.runs[0].trace.links
    called = dict.fromkeys(call.key.link for call in clean.calls if call.kind == "model")
    beyond = [name for name in called if not stays_here(links[name].upstream)]
    return beyond if wanted is None else list(called) if wanted else []


class AuditQuestions(Strategy):
    """Clean runs, then every question twice: once if it waits; once more where its runs differ."""

    def __init__(self, options: AuditOptions, replies: ReplyFiles, lost: Collection[str] = ()) -> None:
        """``lost``: recorded runs that do not count, since their replies are not kept."""
        self._options, self._replies, self._lost = options, replies, lost
        self._runs: dict[str, JudgedEpisode] = {}
        self._faulted: dict[str, FaultedRun] = {}
        self._clean = CleanRuns(())
        self._questions: Questions | None = None

    # the strategy

    def next(self, saved: SavedExperiment) -> Batch | None:
        """See ``Strategy``."""
        recorded, [arm] = self.recorded(saved), saved.plan.arms
        clean = self._clean_runs(recorded)
        if clean.runs and clean.problem:
            return None
        if (number := len(clean.runs) + 1) <= CLEAN_RUNS:
            trial = Trial(clean_key(number), self._clean_settings(arm.settings, number))
            return Batch(prompts=self._prompts(saved, map(clean_key, range(1, number + 1))), trials=[trial])
        questions = self._questions_after(clean, saved)
        settings = self._settings(arm.settings, questions)
        states = [(ask, *self._state(ask, recorded, clean, questions)) for ask in _in_order(questions.asks)]
        usual_s = 2 * clean.seconds + 1
        trials = [
            Trial(key, _with_limit(settings, ask, questions), usual_s if ask.question.hangs else 2 * usual_s)
            for ask, _, key in states
            if key
        ]
        if not trials and not questions.problem:
            return None
        if questions.problem or self._options.dry_run:
            trials = []
        elif clean.varies:
            trials = trials[:1]
        runs = {ask.id: max(ask.runs, len(answer.runs) + bool(key)) for ask, answer, key in states}
        keys = [
            *map(clean_key, range(1, CLEAN_RUNS + 1)),
            *(question_key(ask, number) for ask in questions.asks for number in range(1, runs[ask.id] + 1)),
        ]
        planned = structs.replace(arm, settings=settings)
        return Batch((planned,), prompts=self._prompts(saved, keys), trials=trials)

    def cost(self, saved: SavedExperiment) -> Cost | None:
        """See ``Strategy``: the clean run once for each run that is left; a hang lasts in full."""
        result, recorded = self.answer(saved), self.recorded(saved)
        if result.clean is None or result.problem or not result.asks:
            return None
        left = [
            ask
            for ask in result.asks
            for number in range(1, ask.runs + 1)
            if question_key(ask, number) not in recorded
        ]
        seconds = sum(result.clean.seconds + ask.question.hangs * result.patience for ask in left)
        is_rest = len(left) < len(result.planned)
        cost = Cost(len(left), "about", seconds, source=_BY_CLEAN_RUN, is_rest=is_rest)
        return with_money(cost, result.estimate(left))

    def spent(self, progress: Progress) -> Cost:
        """See ``Strategy``: also what models were paid."""
        recorded, [arm] = self.recorded(progress.saved), progress.saved.plan.arms
        runs = [recorded[episode] for episode in progress.trials if episode in recorded]
        exchanges = (exchange for run in runs for exchange in run.trace.exchanges)
        return with_money(taken(progress.timing), spending(exchanges, self._options.prices(arm.settings)))

    # the answer

    def answer(self, saved: SavedExperiment) -> AuditResult:
        """The answers of all questions whose runs are complete."""
        recorded, [arm] = self.recorded(saved), saved.plan.arms
        result = AuditResult(saved, code=0, prices=self._options.prices(arm.settings))
        result.exchanges = [exchange for run in recorded.values() for exchange in run.trace.exchanges]
        clean = self._clean_runs(recorded)
        if clean.runs:
            result.clean, result.problem = clean, clean.problem
        if result.problem or len(clean.runs) < CLEAN_RUNS:
            return result
        questions = self._questions_after(clean, saved)
        result.asks, result.patience = list(questions.asks), questions.patience
        result.sequential, result.writes = clean.varies, questions.writes
        result.replayed, result.problem = questions.replayed, questions.problem
        if not (result.problem or self._options.dry_run):
            states = (self._state(ask, recorded, clean, questions) for ask in questions.asks)
            result.answers = [answer for answer, key in states if not key]
        return result

    def recorded(self, saved: SavedExperiment) -> Mapping[str, JudgedEpisode]:
        """The complete runs, by their episodes."""
        [arm] = saved.plan.arms
        for run_id in saved.run_ids(arm):
            if run_id not in self._runs and run_id not in self._lost:
                run = complete_run(saved, run_id, self._options.corrections)
                if run is not None:
                    self._runs[run_id] = run
        return {run.trace.episode: run for run in self._runs.values()}

    def _clean_runs(self, recorded: Mapping[str, JudgedEpisode]) -> CleanRuns:
        """The clean runs so far, in their order. The same object until another run is recorded."""
        numbered = (recorded.get(clean_key(number)) for number in range(1, CLEAN_RUNS + 1))
        runs = list(takewhile(bool, numbered))
        if [run.run_id for run in runs if run] != [run.run_id for run in self._clean.runs]:
            self._clean, self._questions = CleanRuns([run for run in runs if run]), None
        return self._clean

    def _questions_after(self, clean: CleanRuns, saved: SavedExperiment) -> Questions:
        if self._questions is None:
            self._questions = questions_after(clean, self._options, saved.plan.configuration.wiring.links)
        return self._questions

    def _state(
        self, ask: Ask, recorded: Mapping[str, JudgedEpisode], clean: CleanRuns, questions: Questions
    ) -> tuple[Answer, str]:
        """The answer so far, and the key of the run that it needs next; empty if it needs none."""
        answer = Answer(ask)
        for number in range(1, ask.runs + 2):
            waited = any(run.seconds > questions.patience for run in answer.runs)
            if number > (1 if waited else ask.runs) and not _needs_another(answer):
                break
            if (run := recorded.get(key := question_key(ask, number))) is None:
                return answer, key
            if run.run_id not in self._faulted:
                self._faulted[run.run_id] = read_faulted(run, ask, clean)
            answer = replace(answer, runs=(*answer.runs, self._faulted[run.run_id]))
        return answer, ""

    # settings

    def _clean_settings(self, settings: Settings, number: int) -> Settings:
        model = ReplayDocument("record", str(self._replies.model))
        documents = (self._writes_document("record").dump(), model.dump()) if number == 1 else ("", "")
        changes = {"audit_writes": documents[0], "audit_model": documents[1], "faults": ""}
        return settings.model_copy(update=changes)

    def _settings(self, settings: Settings, questions: Questions) -> Settings:
        """The settings of the runs with faults: who answers writes, which model replies are replayed."""
        options, changes = self._options, {"faults": questions.faults, "attempt_time": questions.limit}
        if questions.replayed:
            files = str(self._replies.model), str(self._replies.model_copy)
            changes["audit_model"] = ReplayDocument("replay", *files, questions.replayed).dump()
        if not questions.problem and not (options.mode == "real" and options.confirmed):
            document = self._writes_document("answer", only_beyond=questions.writes == "real")
            changes["audit_writes"] = document.dump()
        return settings.model_copy(update=changes)

    def _writes_document(
        self, mode: Literal["record", "answer"], *, only_beyond: bool = False
    ) -> WritesDocument:
        files, corrections = self._replies, self._options.corrections
        return WritesDocument(
            mode,
            str(files.writes),
            str(files.writes_copy),
            only_beyond=only_beyond,
            writes=corrections.writes,
            reads=corrections.reads,
        )

    def _prompts(self, saved: SavedExperiment, keys: Iterable[str]) -> list[Prompt]:
        return [replace(saved.plan.prompts[0], key=key) for key in keys]


def _in_order(asks: Sequence[Ask]) -> list[Ask]:
    """Those that wait first, but one that may soon have a finding before most."""
    first = [ask for ask in asks if not ask.question.hangs][:1]
    return sorted(asks, key=lambda ask: (not ask.question.hangs, ask not in first, not ask.question.lasting))


def _with_limit(settings: Settings, ask: Ask, questions: Questions) -> Settings:
    """A lasting fault needs more time: retries back off."""
    if not ask.question.lasting:
        return settings
    return settings.model_copy(update={"attempt_time": questions.limit + MAX_PATIENCE_S})


def _needs_another(answer: Answer) -> bool:
    """Whether the runs differ, or the last one did not meet the fault where it was planned."""
    if any(run.another_way for run in answer.runs[-1:]):
        return True
    rules = [tuple(sorted({seen.rule for seen in run.seen})) for run in answer.counted]
    statuses = [run.status for run in answer.counted]
    return len(set(rules)) > 1 or len(set(statuses)) > 1
