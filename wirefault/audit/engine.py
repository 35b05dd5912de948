"""Run an audit: the clean runs, then every question as an episode, in one lab with several lanes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from msgspec import structs

from wirefault.audit.answers import (
    Answer,
    CleanRuns,
    FaultedRun,
    read_faulted,
    read_run,
    writes_by_host,
)
from wirefault.audit.options import MAX_PATIENCE_S, AuditOptions
from wirefault.audit.question import Ask, plan_asks
from wirefault.audit.result import CLEAN_RUNS, AuditResult, clean_key, question_key, recorded_runs
from wirefault.core.errors import LAB_FAILED
from wirefault.core.files import replace_shared
from wirefault.core.interrupts import INTERRUPTED
from wirefault.core.redaction import Redaction
from wirefault.experiments.saved import SavedExperiment
from wirefault.faults.sets.presets import canonical_text
from wirefault.gateway.answered_writes import AnsweredWrites, WritesDocument, stays_here, without_secrets
from wirefault.gateway.replayed_model import ReplayDocument
from wirefault.history.reader import HistoryError
from wirefault.judging.judge import JudgedEpisode
from wirefault.lab.own_lab import Halt, RunningLab, with_own_lab
from wirefault.lab.process import ProcessLog
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.settings import Settings
from wirefault.wiring.links import STDIO
from wirefault.wiring.prompts import Prompt, PromptsSource

_MARGIN_S = 30.0
_RESET_BOUND_S = 60.0
_REPLIES, _MODEL_REPLIES = "writes.jsonl", "model.jsonl"


class Listener(Protocol):
    """Follows an audit; the console implements it."""

    def learned(self, result: AuditResult) -> None:
        """The clean runs are over; ``result.problem`` says why nothing can be asked."""

    def answered(self, answer: Answer) -> None:
        """A question has its answer."""


def run_audit(
    saved: SavedExperiment,
    options: AuditOptions,
    choice: Choice,
    say: Callable[[str], None],
    listener: Listener,
) -> AuditResult:
    """Run the audit in its own lab. Raises ``OSError`` if a file cannot be written."""
    result, halt = AuditResult(saved), Halt()
    shares_world = saved.plan.configuration.wiring.world is not None
    lanes = 1 if shares_world else options.lanes
    began = time.monotonic()

    def in_lab(lab: RunningLab) -> int:
        audit = _Audit(lab, result, options, lanes)
        audit.learn()
        listener.learned(result)
        if not (result.problem or options.dry_run or audit.code):
            audit.ask_all(listener)
        result.saved.note_end(rollback=lab.verify_rollback())
        result.seconds = time.monotonic() - began
        return audit.code

    result.code = with_own_lab(
        saved.plan.configuration, choice, say, in_lab, lanes, many_runs=True, halt=halt
    )
    return result


class _Audit:
    def __init__(
        self,
        lab: RunningLab,
        result: AuditResult,
        options: AuditOptions,
        lanes: int,
    ) -> None:
        self._lab, self._result, self._options = lab, result, options
        self._lanes = deque(range(lanes))
        self._computing = threading.Semaphore(options.workers)
        self._ids = self._new_ids()
        self._lock = threading.Lock()
        self._replies = lab.private_file(_REPLIES)
        self._model_replies = lab.private_file(_MODEL_REPLIES)
        self._model_copy = (result.saved.folder / _MODEL_REPLIES).absolute()
        self._replies_copy = (result.saved.folder / _REPLIES).absolute()
        self._recorded = recorded_runs(result.saved, options.corrections) if options.resumed else {}
        self._planned: list[Prompt] = []
        self.code = 0
        plan = result.saved.plan  # a resumed one may name a run that is not needed any more
        result.saved = replace(result.saved, plan=replace(plan, prompts=plan.prompts[:1]))
        [arm] = result.saved.plan.arms
        result.prices = options.prices(arm.settings)

    def _new_ids(self) -> Iterator[str]:
        saved = self._result.saved
        [arm] = saved.plan.arms
        while True:
            yield from saved.next_run_ids(arm, 1)

    # learning

    def learn(self) -> None:
        """Make the clean runs, and plan the questions."""
        result = self._result
        prompt = result.saved.plan.prompts[0]
        views: list[JudgedEpisode] = []
        for number in range(1, CLEAN_RUNS + 1):
            key = clean_key(number)
            recording = self._writes_document("record").dump() if number == 1 else ""
            model = ReplayDocument("record", str(self._model_replies)).dump() if number == 1 else ""
            changes = {"audit_writes": recording, "audit_model": model, "faults": ""}
            view = self._run(replace(prompt, key=key), 0, changes)
            if view is None:
                return
            views.append(view)
            result.clean = CleanRuns(views)
            if result.clean.problem:
                result.problem = result.clean.problem
                return
        assert result.clean is not None
        clean = result.clean
        result.patience = self._options.patience_after(clean)
        result.asks = list(plan_asks(self._options.chosen, clean.calls))
        result.sequential = clean.varies
        self._plan_faults()
        if not clean.calls:
            past = [f"; not asked: {server}" for server in clean.pipe_servers]
            result.problem = "the command made no call that the lab can fault" + "".join(past)
        elif not result.asks:
            result.problem = "no question fits the calls of the command"
        else:
            self._choose_replay()
            result.problem = self._choose_writes()
        keys = [question_key(ask, number) for ask in result.asks for number in range(1, ask.runs + 1)]
        self._planned = [replace(prompt, key=key) for key in keys]
        self._write_plan()

    def _write_plan(self) -> None:
        """Write the plan with the prompts of all runs, so that a killed audit is read with all it asked."""
        plan = self._result.saved.plan
        known = {prompt.key for prompt in plan.prompts}
        prompts = (*plan.prompts, *(prompt for prompt in self._planned if prompt.key not in known))
        replace(self._result.saved, plan=replace(plan, prompts=prompts)).write_plan()

    def _choose_writes(self) -> str:
        """Decide who answers writes in runs with faults. Return why none may run; empty if they may."""
        result, options = self._result, self._options
        assert result.clean is not None
        hosts = writes_by_host(result.clean.runs)
        beyond = next((upstream for upstream in hosts if not stays_here(upstream)), "")
        result.writes = options.mode or ("answer" if beyond else "real")
        if result.writes == "real" and beyond and not options.confirmed:
            return (
                f"--writes real: it writes to {beyond}, not this machine, and each run would write there"
                " again; add --yes if that is what you want"
            )
        if result.writes == "real" and options.mode == "real" and options.confirmed:
            return ""
        if options.mode == "answer" and STDIO in hosts:
            return (
                f"--writes answer: {', '.join(hosts[STDIO])} of an MCP server over a pipe cannot be answered"
                " in its place; leave the option out"
            )
        if result.writes == "answer":
            self._keep_replies()
        document = self._writes_document("answer", only_beyond=result.writes == "real").dump()
        self._set(audit_writes=document)
        return ""

    def _choose_replay(self) -> None:
        """Decide which models' replies before a fault are the clean run's."""
        result, wanted = self._result, self._options.replay
        assert result.clean is not None
        links = result.clean.runs[0].trace.links
        called = dict.fromkeys(call.key.link for call in result.clean.calls if call.kind == "model")
        beyond = [name for name in called if not stays_here(links[name].upstream)]
        names = beyond if wanted is None else list(called) if wanted else []
        result.replayed = names
        if not names:
            return
        self._keep_copy(self._model_replies, self._model_copy)
        document = ReplayDocument("replay", str(self._model_replies), str(self._model_copy), names)
        self._set(audit_model=document.dump())

    def _set(self, **changes: str) -> None:
        """Change settings of the runs with faults."""
        saved = self._result.saved
        [arm] = saved.plan.arms
        settings = arm.settings.model_copy(update=changes)
        self._result.saved = replace(
            saved, plan=replace(saved.plan, arms=(structs.replace(arm, settings=settings),))
        )

    def _writes_document(
        self, mode: Literal["record", "answer"], *, only_beyond: bool = False
    ) -> WritesDocument:
        corrections = self._options.corrections
        return WritesDocument(
            mode,
            str(self._replies),
            str(self._replies_copy),
            only_beyond=only_beyond,
            writes=corrections.writes,
            reads=corrections.reads,
        )

    def _keep_replies(self) -> None:
        """Keep the clean run's replies to writes with the audit, without secrets, for ``run --again``."""
        self._result.replies_not_kept = self._keep_copy(self._replies, self._replies_copy)

    def _keep_copy(self, private: Path, copy: Path) -> int:
        """Copy the replies without those that have secrets; return how many these are."""
        saved = self._result.saved
        if copy.exists() and not private.exists():
            return 0
        replies = private.read_bytes() if private.exists() else b""
        data, hidden = without_secrets(replies, Redaction(saved.plan.configuration.environ))
        replace_shared(saved.logs, copy, data)
        return hidden

    def _replies_are_missing(self, settings: Settings) -> bool:
        """Whether runs with faults need a recorded reply that an earlier lab had and this one has not."""
        if not settings.audit_writes or self._replies.exists():
            return False
        return AnsweredWrites.lacks_replies(settings.audit_writes)

    def _plan_faults(self) -> None:
        """Make one fault set with an entry for each question, which is met in that question's episodes."""
        result, saved = self._result, self._result.saved
        assert result.clean is not None
        entries = [ask.question.entry(ask.id, ask.call, result.patience) for ask in result.asks]
        faults = canonical_text({"faults": entries}, saved.plan.configuration.wiring.links)
        [arm] = saved.plan.arms
        settings = arm.settings.model_copy(update={"faults": faults, "attempt_time": self._limit()})
        plan = replace(saved.plan, arms=(structs.replace(arm, settings=settings),))
        result.saved = replace(saved, plan=plan)

    def _limit(self, more: float = 0.0) -> float:
        """Return the seconds after which a run is stopped. A lasting fault needs more: retries back off."""
        assert self._result.clean is not None
        return 3 * self._result.clean.seconds + self._result.patience + _MARGIN_S + more

    # asking

    def ask_all(self, listener: Listener) -> None:
        """Answer all questions; those that wait first, but one that may soon have a finding before most."""
        first = [ask for ask in self._result.asks if not ask.question.hangs][:1]
        asks = sorted(
            self._result.asks,
            key=lambda ask: (not ask.question.hangs, ask not in first, not ask.question.lasting),
        )
        workers = 1 if self._result.sequential else len(self._lanes)
        with ThreadPoolExecutor(workers) as pool:
            running = {pool.submit(self._answer, ask) for ask in asks}
            while running:
                done, running = wait(running, 0.1, FIRST_COMPLETED)
                for each in done:
                    answer = each.result()
                    if answer is not None:
                        self._result.answers.append(answer)
                        listener.answered(answer)
                if self.code:
                    for each in running:
                        each.cancel()
                    running = {each for each in running if not each.cancelled()}
        order = {ask.id: place for place, ask in enumerate(self._result.asks)}
        self._result.answers.sort(key=lambda answer: order[answer.ask.id])

    def _answer(self, ask: Ask) -> Answer | None:
        """Run the question twice, once if it waits; once more where the runs differ or took another way."""
        answer = Answer(ask)
        for number in range(1, ask.runs + 2):
            waited = any(run.seconds > self._result.patience for run in answer.runs)
            if number > (1 if waited else ask.runs) and not _needs_another(answer):
                break
            faulted = self._ask(ask, number)
            if faulted is None:
                return None
            answer = replace(answer, runs=(*answer.runs, faulted))
        return answer

    def _ask(self, ask: Ask, number: int) -> FaultedRun | None:
        result = self._result
        assert result.clean is not None
        key = question_key(ask, number)
        prompt = replace(result.saved.plan.prompts[0], key=key)
        changes = {"attempt_time": self._limit(MAX_PATIENCE_S)} if ask.question.lasting else {}
        with self._lane(hangs=ask.question.hangs) as lane:
            if self.code:
                return None
            view = self._run(prompt, lane, changes)
        return None if view is None else read_faulted(view, ask, result.clean)

    @contextmanager
    def _lane(self, *, hangs: bool) -> Iterator[int]:
        """A free lane. An agent that waits, in a hang or for a retry, does not count as one that computes."""
        self._computing.acquire()
        released = threading.Event()

        def release() -> None:
            with self._lock:
                if not released.is_set():
                    released.set()
                    self._computing.release()

        clean = self._result.clean
        usual = 2 * clean.seconds + 1 if clean else 0.0
        timer = threading.Timer(usual if hangs else 2 * usual, release)
        timer.daemon = True
        timer.start()
        with self._lock:
            lane = self._lanes.popleft()
        try:
            yield lane
        finally:
            with self._lock:
                self._lanes.append(lane)
            timer.cancel()
            release()

    def _run(
        self, prompt: Prompt, lane: int, changes: Mapping[str, str | float] | None = None
    ) -> JudgedEpisode | None:
        """Run the agent once; None if the audit must end."""
        result = self._result
        [arm] = result.saved.plan.arms
        with self._lock:
            plan = result.saved.plan
            if prompt.key not in [each.key for each in plan.prompts]:
                result.saved = replace(result.saved, plan=replace(plan, prompts=(*plan.prompts, prompt)))
                if self._planned and prompt.key not in {each.key for each in self._planned}:
                    self._write_plan()
        recorded = self._recorded.get(prompt.key)
        is_lost = prompt.key == clean_key(1) and self._replies_are_missing(arm.settings)
        if recorded is not None and not is_lost:
            return self._noted(recorded)
        saved, configuration = result.saved, result.saved.plan.configuration
        [arm] = saved.plan.arms
        with self._lock:
            run_id = next(self._ids)
            source = PromptsSource(str(saved.write_prompts([prompt], run_id)))
            result.runs += 1
        if problem := _reset(self._options.reset):
            self.code, result.problem = LAB_FAILED, problem
            return None
        settings = arm.settings.model_copy(update=dict(changes or {}))
        log = ProcessLog(configuration.logs, saved.folder / f"{run_id}.txt")
        code = self._lab.run(run_document(run_id, settings, source, is_part=True), log, lane)
        if code == INTERRUPTED:
            self.code = code
            return None
        try:
            judgement = saved.facts.judgement(run_id)
            return self._noted(read_run(judgement, self._options.corrections))
        except (HistoryError, OSError, ValueError) as error:
            self.code = self.code or LAB_FAILED
            result.problem = log.last_lines(1) or str(error)
            return None

    def _noted(self, run: JudgedEpisode) -> JudgedEpisode:
        with self._lock:
            self._result.exchanges += run.trace.exchanges
        return run


def _reset(command: str) -> str:
    """Run the command; return why it failed, or an empty text."""
    if not command:
        return ""
    try:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=_RESET_BOUND_S)
    except subprocess.TimeoutExpired:
        return f"--reset {command}: still running after {_RESET_BOUND_S:.0f} s"
    last_line = (done.stderr or done.stdout).strip().rpartition("\n")[2]
    return f"--reset {command}: exit code {done.returncode}: {last_line}" if done.returncode else ""


def _needs_another(answer: Answer) -> bool:
    """Whether the runs differ, or the last one did not meet the fault where it was planned."""
    if any(run.another_way for run in answer.runs[-1:]):
        return True
    rules = [tuple(sorted({seen.rule for seen in run.seen})) for run in answer.counted]
    statuses = [run.status for run in answer.counted]
    return len(set(rules)) > 1 or len(set(statuses)) > 1
