"""Run an audit: the engine of all experiments carries out its questions, in one lab with several lanes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from wirefault.audit.answers import Answer
from wirefault.audit.options import AuditOptions
from wirefault.audit.result import AuditResult, clean_key, complete_runs
from wirefault.audit.strategy import AuditQuestions, ReplyFiles
from wirefault.core.errors import LAB_FAILED
from wirefault.core.files import names_in, replace_shared
from wirefault.core.redaction import Redaction
from wirefault.experiments.engine import Engine, LocalEngine, RunControl
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.strategy import carry_out
from wirefault.experiments.watch import ArmSoFar
from wirefault.gateway.answered_writes import AnsweredWrites, without_secrets
from wirefault.lab.own_lab import Halt, RunningLab
from wirefault.lab.process import ProcessLog
from wirefault.lab.toxiproxy import Choice
from wirefault.wiring.prompts import load_prompts

_RESET_BOUND_S = 60.0


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
    engine: Engine | None = None,
    progress: Callable[[ArmSoFar], None] | None = None,
) -> AuditResult:
    """Run what is left of the audit. Raises ``OSError`` if a file cannot be written."""
    began, edge = time.monotonic(), _Edge(saved, options, listener)
    shares_world = saved.plan.configuration.wiring.world is not None
    how = RunControl(
        choice,
        say,
        options.workers,
        lanes=1 if shares_world else options.lanes,
        halt=edge.halt,
        lab_ready=edge.lab_ready,
        batch_begins=edge.batch_begins,
        trial_begins=edge.reset,
        trial_done=edge.trial_done,
        progress=progress,
    )
    done = carry_out(saved, edge.strategy, how, engine or LocalEngine())
    if done.trials or done.code != LAB_FAILED:
        edge.learned(done.saved)
    result = edge.result_of(done.saved)
    recorded = {*edge.strategy.recorded(done.saved), *done.trials}
    plan = done.saved.plan  # which may name runs that were not needed
    prompts = tuple(prompt for prompt in plan.prompts if prompt.key in recorded)
    result.saved = replace(done.saved, plan=replace(plan, prompts=prompts or plan.prompts[:1]))
    result.code = done.code or (LAB_FAILED if edge.problem else 0)
    result.seconds = time.monotonic() - began
    return result


@dataclass
class _Edge:
    """The side effects of an audit: files of replies, the world's reset, and the listener."""

    saved: SavedExperiment
    options: AuditOptions
    listener: Listener
    halt: Halt = field(default_factory=Halt)
    problem: str = ""
    """Why the audit ended early."""
    replies_not_kept: int = 0
    _has_learned: bool = False

    def __post_init__(self) -> None:
        self.files = ReplyFiles(self.saved.folder)
        self.strategy = AuditQuestions(self.options, self.files, self._lost())

    def result_of(self, saved: SavedExperiment) -> AuditResult:
        """The result so far."""
        result = self.strategy.answer(saved)
        result.problem = result.problem or self.problem
        result.replies_not_kept = self.replies_not_kept
        return result

    def lab_ready(self, lab: RunningLab) -> None:
        """Let the gateway record replies in files that are removed with the lab."""
        self.files.writes = lab.private_file(self.files.writes_copy.name)
        self.files.model = lab.private_file(self.files.model_copy.name)

    def batch_begins(self, saved: SavedExperiment) -> None:
        """After the clean runs, keep their replies for later runs, and tell the listener."""
        result = self.strategy.answer(saved)
        if self._has_learned or (not result.asks and not result.problem):
            return
        if result.asks and result.replayed:
            self._keep_copy(self.files.model, self.files.model_copy)
        if result.writes == "answer" and not result.problem:
            self.replies_not_kept = self._keep_copy(self.files.writes, self.files.writes_copy)
        self.learned(saved)

    def learned(self, saved: SavedExperiment) -> None:
        """Tell the listener once what the clean runs showed, with the answers of an audit that is resumed."""
        if self._has_learned:
            return
        self._has_learned = True
        result = self.result_of(saved)
        self.listener.learned(result)
        for answer in result.answers:
            self.listener.answered(answer)

    def reset(self) -> bool:
        """Put the world back before a run."""
        if problem := _reset(self.options.reset):
            self._end(problem)
        return not problem

    def trial_done(self, saved: SavedExperiment, episode: str) -> None:
        """Tell the listener about the answer if this was its last run. One without history ends the audit."""
        if episode not in self.strategy.recorded(saved):
            self._end(_last_line(saved, episode))
        id = episode.partition(".")[0]
        answers = [answer for answer in self.strategy.answer(saved).answers if answer.ask.id == id]
        for answer in answers:
            self.listener.answered(answer)

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.halt.begin_no_other = self.problem

    def _lost(self) -> list[str]:
        """The first clean run, if runs with faults need its replies, which are not kept without its lab."""
        [arm] = self.saved.plan.arms
        setting = arm.settings.audit_writes
        if not setting or not AnsweredWrites.lacks_replies(setting):
            return []
        runs = complete_runs(self.saved, self.options.corrections)
        return [run.run_id for run in runs if run.trace.episode == clean_key(1)]

    def _keep_copy(self, private: Path, copy: Path) -> int:
        """Copy the replies without those that have secrets; return how many these are."""
        if copy.exists() and not private.exists():
            return 0
        replies = private.read_bytes() if private.exists() else b""
        data, hidden = without_secrets(replies, Redaction(self.saved.plan.configuration.environ))
        replace_shared(self.saved.logs, copy, data)
        return hidden


def _last_line(saved: SavedExperiment, episode: str) -> str:
    """The last line that the episode's newest run printed."""
    names = [name for name in names_in(saved.logs, saved.folder) if name.startswith(saved.experiment_id)]
    by_age = sorted(names, key=lambda name: (len(name), name))
    for name in reversed([name for name in by_age if name.endswith(".json")]):
        if [prompt.key for prompt in load_prompts(saved.folder / name).entries] == [episode]:
            log = ProcessLog(saved.logs, saved.folder / f"{name.removesuffix('.json')}.txt")
            return log.last_lines(1) or f"the run of {episode} has left no history"
    return f"the run of {episode} did not begin"


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
