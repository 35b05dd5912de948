"""One run: its prompts in turn, until its end."""

from __future__ import annotations

import platform
import sqlite3
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import requests
from msgspec import structs

from wirefault._version import __version__
from wirefault.core.errors import DISK_FULL, error_text, resource_problem
from wirefault.core.interrupts import INTERRUPTED_LINE
from wirefault.core.processes import reason_to_stop
from wirefault.core.redaction import Redaction
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import (
    EpisodeJudged,
    EpisodeStarted,
    FaultsSet,
    Level,
    NeverCalled,
    RunFinished,
    RunStarted,
    WorldProbed,
)
from wirefault.history.reader import HistoryError, Tail
from wirefault.history.writer import history_file
from wirefault.judging.charted import run_data
from wirefault.judging.ending import run_word
from wirefault.judging.judge import judge_run
from wirefault.judging.summary import Summary, ended_early, summary_of
from wirefault.runner.attempts import AttemptRunner, worth_another
from wirefault.runner.interruption import EndedByLauncher
from wirefault.runner.manager_client import ManagerClient, RunAborted
from wirefault.runner.never_called import NamingFiles, never_called
from wirefault.runner.record import EpisodeJudge, Recorder, RunRecord
from wirefault.runner.world_probe import WorldProbe
from wirefault.settings.budgets import load_budgets
from wirefault.settings.configuration import Configuration
from wirefault.settings.episode_faults import draws_for_used
from wirefault.settings.settings import Settings
from wirefault.state.state import State
from wirefault.state.tables import ConfigurationRow
from wirefault.subjects.budgeted import budgeted
from wirefault.subjects.subject import Subject
from wirefault.wiring.prompts import Prompt, Prompts, check_next_turns, check_tool_links, check_turns
from wirefault.wiring.topology import Topology
from wirefault.wiring.world_spec import WorldSpec

_NOT_ARMED_LIMIT = 3


class ProgressListener(Protocol):
    """Follows the progress of a run, such as the console."""

    def say(self, message: str) -> None: ...
    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None: ...
    def episode_judged(self, index: int, total: int, judgement: EpisodeJudged) -> None: ...


class Runner:
    """Carries out one run. Secrets in the configuration's ``environ`` are redacted from all records."""

    def __init__(
        self, run_id: str, configuration: Configuration, subject: Subject, listener: ProgressListener
    ) -> None:
        self._recorded = subject.keeps_record
        self.settings = with_bodies_decided(configuration.settings, recorded=self._recorded)
        self._faults = FaultSet()
        self._prompts: list[Prompt] = []
        self._topology = topology = configuration.topology
        self._why_no_other = partial(reason_to_stop, configuration.environ)
        self._wiring = configuration.wiring
        self._faults_name = configuration.faults_name
        self._lab_files = configuration.lab_files
        self._subject = subject
        self._subject_name = subject.name or type(subject).__name__
        self._manager = ManagerClient(lambda: State(configuration.state), time.time, time.sleep)
        self._listener = listener
        self._redaction = Redaction(configuration.environ)
        self._recorder = Recorder(run_id, topology.lane, configuration.logs, self._redaction)
        self._record = self._recorder.record
        self._summary: Summary | None = None
        gateway = history_file(configuration.logs, run_id, "gateway", topology.lane)
        limited = budgeted(subject, load_budgets(self.settings.budgets), Tail(gateway))
        self._attempts = AttemptRunner(self._recorder, self._manager, topology, limited, gateway)
        self._world = WorldProbe(self._wiring.world or WorldSpec(), self._wiring.folder, time.time)
        self._judge = EpisodeJudge(self._recorder, configuration.effects, listener.say)

    def note(self, level: Level, message: str) -> None:
        """Record a note before the run's first event."""
        self._recorder.note(level, message)

    def run(self, prompts: Prompts) -> RunRecord:
        """Run all prompts in turn. Errors that end the run early become the record's ``reason``.

        So does the text of a ``KeyboardInterrupt``, which ``interrupt_once`` sets.
        """
        record = self._record
        try:
            self._start(prompts)
            planned = len(prompts.entries)
            for index, prompt in enumerate(prompts.entries, start=1):
                if why := self._why_no_other():
                    raise RunAborted(why)
                self._episode(index, planned, prompt)
                if DISK_FULL in self._attempts.why_not:
                    raise RunAborted(self._attempts.why_not)
                if self._attempts.not_armed >= _NOT_ARMED_LIMIT and index < planned:
                    raise RunAborted(
                        f"{_NOT_ARMED_LIMIT} episodes in a row could not be armed: {self._attempts.why_not}"
                    )
            record.completed = True
        except (RunAborted, HistoryError) as error:
            record.reason = str(error)
        except sqlite3.Error as error:
            record.reason = resource_problem(error, "state/") or f"state/ could not be used: {error}"
        except OSError as error:
            record.reason = error_text(error)
        except KeyboardInterrupt as end:
            record.reason = str(end) or INTERRUPTED_LINE
            record.interrupted = record.reason == INTERRUPTED_LINE
            record.launcher_tells = isinstance(end, EndedByLauncher)
        finally:
            record.toxics_left = self._manager.release()
            self._finish()
        return record

    def _start(self, prompts: Prompts) -> None:
        self._prompts = prompts.entries
        self._take_lab_faults()
        topology, settings = self._topology, self.settings
        links = topology.links.adding(self._manager.found_links(topology.lab_id, topology.lane))
        self._recorder.emit(
            RunStarted(
                time.time(),
                self._record.run_id,
                topology.lab_id,
                topology.lane,
                settings.seed,
                settings.model_dump(),
                self._redaction.text(self._subject_name),
                len(prompts.entries),
                len(prompts.problems),
                prompts.source,
                links.redacted(self._redaction),
                self._redaction.words(self._wiring.arguments),
                subject_kind=self._subject.kind,
                versions={"wirefault": __version__, "python": platform.python_version()},
                faults_name=self._redaction.text(self._faults_name),
                lab_files=self._redaction.value(self._lab_files),
            )
        )
        self._manager.lease(self._record.run_id, topology.lab_id, topology.lane, settings, self._listener.say)

    def _take_lab_faults(self) -> None:
        set_on_lab = self._manager.lab_faults(self._topology.lab_id, self._topology.lane)
        self.settings, sentence = with_lab_faults(self.settings, set_on_lab)
        self._faults = read_canonical(self.settings.faults, self.settings.chaos_level)
        if sentence:
            self.note("info", sentence)
            self._listener.say(sentence)

    def _episode(self, index: int, total: int, prompt: Prompt) -> None:
        episode = prompt.key
        started = EpisodeStarted(
            time.time(),
            episode,
            prompt.text,
            prompt.expect,
            self._recorded,
            list(prompt.turns),
            prompt.metadata,
            None if prompt.tool_links is None else list(prompt.tool_links),
            prompt.place,
        )
        self._recorder.emit(started)
        ready = self._probed(self._world.before(episode))
        for attempt in range(1, self.settings.prompt_limit + 1) if ready else ():
            prompt_text = self._redaction.text(prompt.text)
            self._listener.attempt_started(index, total, prompt_text, attempt)
            result = self._attempts.carry_out(self.settings, self._faults, attempt, prompt)
            if result is None or not worth_another(result):
                break
        self._judge.read_world(episode)
        if ready:
            self._probed(self._world.after(episode))
        judgement = self._judge.judge(episode)
        self._recorder.progress_line(index, judgement)
        self._listener.episode_judged(index, total, judgement)

    def _probed(self, probed: WorldProbed | None) -> bool:
        """Record the probe's result; False if the world could not be reset or read."""
        if probed is not None:
            self._recorder.emit(probed)
        return probed is None or probed.error is None

    def _finish(self) -> None:
        record = self._record
        try:
            if record.reason:
                self.note("error", ended_early(record.reason))
            self._judge.judge_late_effects()
            end = RunFinished(time.time(), record.completed, record.reason, record.toxics_left)
            _, end = self._recorder.without_secrets(structs.replace(end, never_called=self._never_called()))
            judged = judge_run([*record.events, end])
            summary = summary_of(judged)
            self._recorder.finish(structs.replace(end, worst=summary.worst, word=run_word(summary)))
            self._summary = summary
            self._recorder.store_charts(run_data(judged.events, joined=judged.traces.values()))
        except (HistoryError, OSError) as error:  # the disk is still full: only the console can tell
            record.completed = False
            reason = error_text(error) if isinstance(error, OSError) else str(error)
            record.reason = record.reason or reason

    def summary(self) -> Summary:
        """The summary at the run's end, of what could be recorded. Each episode was judged when it ended."""
        return self._summary or summary_of(judge_run(self._record.events))

    def _never_called(self) -> list[NeverCalled]:
        """The names in the run's files that no link has got; none for a run that ended early."""
        intercept, events = self._wiring.intercept, self._record.events
        started = next((event for event in events if isinstance(event, RunStarted)), None)
        if intercept is None or started is None or not self._record.completed:
            return []
        later = [read_canonical(event.faults) for event in events if isinstance(event, FaultsSet)]
        used = draws_for_used(self.settings)
        files = NamingFiles([self._faults, *later], self._prompts, intercept, draws_for_used=used)
        return never_called(files, started.wired, events)

    def log_summary(self, summary: dict[str, object]) -> None:
        """Write the summary, as from ``Summary.as_json``, and the run's seal into info.log."""
        claims = self.summary().claims.headline
        message = f"run summary: {claims}" if claims else "run summary"
        self._recorder.logs.line("summary", message, summary=summary, seal=self._recorder.seal)

    def close(self) -> None:
        self._recorder.close()
        self._manager.close()


def with_bodies_decided(settings: Settings, *, recorded: bool) -> Settings:
    """Resolve ``auto``: a subject that records its calls needs no bodies."""
    if settings.bodies != "auto":
        return settings
    return settings.model_copy(update={"bodies": "off" if recorded else "on"})


def with_lab_faults(settings: Settings, set_on_lab: ConfigurationRow | None) -> tuple[Settings, str]:
    """The run's settings, and a sentence if they take the lab's fault set.

    A run takes the lab's set if it has none itself.
    """
    if settings.faults or set_on_lab is None or not set_on_lab.faults:
        return settings, ""
    sentence = f"the lab's faults are in force: {set_on_lab.source} (configuration {set_on_lab.number})"
    # the lab's set already includes its chaos level
    return settings.model_copy(update={"faults": set_on_lab.faults, "chaos_level": 1.0}), sentence


_PROBE_TIMEOUT_S = 15.0
_WITHOUT_CONTROL = (
    "outcomes and findings are without the control, which may repeat a write as often: wirefault report {}"
    " compares with it"
)


@dataclass(frozen=True)
class PromptsRun:
    """A finished run: the settings in force, its record and its summary."""

    settings: Settings
    record: RunRecord
    summary: Summary

    @property
    def failure(self) -> str:
        """Why the lab, not the subject, failed; empty for a complete run."""
        if not self.record.completed:
            return ended_early(self.record.reason)
        return self.summary.lab_failed_because


def run_prompts(
    run_id: str,
    configuration: Configuration,
    subject: Subject,
    prompts: Prompts,
    listener: ProgressListener,
    control_in: str = "",
) -> PromptsRun:
    """Send the prompts to the subject in a lab that is up. Raises ``OSError`` if a log cannot be written.

    ``control_in``: the experiment whose control judges the run later; the summary says that it did not yet.
    Raises ``PromptsError``, before the first prompt, for a conversation that the subject does not support and
    for turns that cannot be made. Errors that end the run early, and ``KeyboardInterrupt``, are in
    ``PromptsRun.failure``.
    """
    check_turns(prompts, holds_them=subject.holds_conversations)
    check_next_turns(prompts)
    if configuration.wiring.intercept is None and draws_for_used(configuration.settings):
        check_tool_links(prompts, configuration.topology.links.tool_names)
    settings, decision = decide_backend(configuration.settings, configuration.topology)
    notes: list[tuple[Level, str]] = [("warning", line) for line in (*prompts.problems, *prompts.notes)]
    notes += [("warning", remark) for remark in configuration.remarks]
    notes += [("info", decision)] if decision else []
    notes += subject.notes
    runner = Runner(run_id, replace(configuration, settings=settings), subject, listener)
    try:
        for level, message in notes:
            runner.note(level, message)
            listener.say(message if level == "info" else f"{level}: {message}")
        record = runner.run(prompts)
        summary = runner.summary()
        if control_in:
            summary = replace(summary, remarks=[*summary.remarks, _WITHOUT_CONTROL.format(control_in)])
        try:
            runner.log_summary(summary.as_json())
        except OSError:
            if record.completed:  # else its reason is the same, and shown with the summary
                raise
    finally:
        runner.close()
    return PromptsRun(runner.settings, record, summary)


def decide_backend(settings: Settings, topology: Topology) -> tuple[Settings, str | None]:
    """Resolve the translator's ``auto``; with a sentence on the reason, None if it was set.

    With the scripted model or cassettes it is the offline phrasebook, so that runs repeat. Otherwise the
    translator service names the first backend that works, before any fault.
    """
    if settings.translator_backend != "auto":
        return settings, None
    if settings.translates_offline:
        return settings.model_copy(update={"translator_backend": "offline"}), None
    backend, reason = _probe(topology.proxies["translator"].url)
    sentence = f"translator: {backend} for this run ({reason})"
    return settings.model_copy(update={"translator_backend": backend}), sentence


def _probe(url: str) -> tuple[str, str]:
    try:
        with requests.Session() as session:
            session.trust_env = False
            reply = session.get(f"{url}/backends/probe?backend=auto", timeout=_PROBE_TIMEOUT_S)
            answer = reply.json()
        return str(answer["backend"]), str(answer["reason"])
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        return "offline", f"the probe failed: {type(error).__name__}"
