"""A run from its first request to its summary: every prompt an episode, every episode one or more attempts.

The runner knows no agent: it takes a ``Subject`` and judges what that did by the history and the worlds.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from windtunnel.baggage import Identity
from windtunnel.control import Control, RunAborted
from windtunnel.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeStarted,
    Event,
    FaultsSet,
    Level,
    Note,
    RunFinished,
    RunStarted,
    WorldRead,
)
from windtunnel.history import (
    Torn,
    Writer,
    dump_line,
    history_file,
    parse_line,
)
from windtunnel.inforce import toxics_in_force, with_faults_of_lab
from windtunnel.judge import EpisodeJudgement, judge_episode
from windtunnel.logs import Logs, agent_line, told_of
from windtunnel.prompts import Prompt
from windtunnel.schedule import plan_toxics
from windtunnel.settings import Settings
from windtunnel.subject import AttemptContext, Subject, SubjectResult
from windtunnel.tail import Tail
from windtunnel.topology import Topology
from windtunnel.worlds import read_effects, world_of

NOT_ARMED_LIMIT = 3
E = TypeVar("E", bound=Event)


class Audience(Protocol):
    """Who is told how the run goes: the console, or nobody."""

    def say(self, message: str) -> None: ...
    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None: ...
    def episode_judged(self, index: int, total: int, judgement: EpisodeJudgement) -> None: ...


@dataclass(frozen=True)
class Places:
    """Where the run reads and writes."""

    logs: Path
    effects: Path


@dataclass
class RunRecord:
    """What the run left in memory, for its summary; the same is in its history."""

    run_id: str
    events: list[Event] = field(default_factory=list)
    judgements: dict[str, EpisodeJudgement] = field(default_factory=dict)
    torn: Torn = field(default_factory=Torn)
    completed: bool = False
    reason: str = ""
    toxics_left: int | None = None


class Runner:
    """Carries out one run. ``redact`` takes secrets out of whatever is recorded, as a line of JSON."""

    def __init__(
        self,
        run_id: str,
        settings: Settings,
        topology: Topology,
        subject: Subject,
        control: Control,
        places: Places,
        audience: Audience,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.settings = settings
        self._topology = topology
        self._subject = subject
        self._control = control
        self._places = places
        self._audience = audience
        self._redact = redact
        self._record = RunRecord(run_id)
        self._not_armed = 0
        self._why_not = ""
        self._path = history_file(places.logs, run_id, "agent", topology.lane)
        self._writer = Writer(self._path)
        self._logs = Logs(places.logs, run_id)
        self._tails = [
            Tail(history_file(places.logs, run_id, process, topology.lane))
            for process in ("gateway", "manager")
        ]

    def note(self, level: Level, message: str) -> None:
        """What the run shall be remembered by, before it starts."""
        self._emit(Note(time.time(), level, message))

    def run(self, prompts: Sequence[Prompt]) -> RunRecord:
        """Runs all prompts in turn. What ends the run early is said in the record, not raised."""
        record = self._record
        try:
            self._start(len(prompts))
            for index, prompt in enumerate(prompts, start=1):
                self._episode(index, len(prompts), prompt)
                if self._not_armed >= NOT_ARMED_LIMIT and index < len(prompts):
                    raise RunAborted(
                        f"{NOT_ARMED_LIMIT} episodes in a row could not be armed: {self._why_not}"
                    )
            record.completed = True
        except RunAborted as error:
            record.reason = str(error)
        except sqlite3.Error as error:
            record.reason = f"state/ could not be used: {error}; is the disk full, or the file not writable?"
        except OSError as error:
            record.reason = f"logs/ could not be written: {error.strerror or error}; is the disk full?"
        except KeyboardInterrupt:
            record.reason = "interrupted"
        finally:
            record.toxics_left = self._control.release()
            self._finish()
        return record

    def _start(self, prompts: int) -> None:
        self._take_faults_of_lab()
        topology, settings = self._topology, self.settings
        self._emit(
            RunStarted(
                time.time(),
                self._record.run_id,
                topology.lab_id,
                topology.lane,
                settings.seed,
                settings.model_dump(),
                self._subject.name,
                prompts,
            )
        )
        self._control.lease(self._record.run_id, topology.lab_id, topology.lane, settings, self._audience.say)

    def _take_faults_of_lab(self) -> None:
        there = self._control.faults_of_lab(self._topology.lab_id, self._topology.lane)
        self.settings, said = with_faults_of_lab(self.settings, there)
        if said:
            self.note("info", said)
            self._audience.say(said)

    def _finish(self) -> None:
        record = self._record
        try:
            if record.reason:
                self._emit(Note(time.time(), "error", f"the run ended early: {record.reason}"))
            self._judge_late_effects()
            self._emit(RunFinished(time.time(), record.completed, record.reason, record.toxics_left))
        except OSError as error:  # the disk is still full: the console must do
            record.completed = False
            record.reason = record.reason or f"logs/ could not be written: {error.strerror or error}"

    def close(self) -> None:
        self._writer.close()
        self._logs.close()
        self._control.close()

    def summarised(self, line: dict[str, object]) -> None:
        """Writes the summary into info.log."""
        self._logs.line("summary", "run summary", summary=line)

    # an episode

    def _episode(self, index: int, total: int, prompt: Prompt) -> None:
        episode = f"{index:03d}"
        self._emit(EpisodeStarted(time.time(), episode, prompt.text, prompt.expect))
        ended: list[AttemptEnded] = []
        for attempt in range(1, self.settings.prompt_limit + 1):
            self._audience.attempt_started(index, total, prompt.text, attempt)
            result = self._attempt(episode, attempt, prompt.text)
            if result is not None:
                ended.append(result)
            if result is None or not worth_another(result):
                break
        self._read_world(episode)
        judgement = self._judge(episode)
        for one in ended:
            outcome = judgement.outcome if one is ended[-1] else None
            self._logs.agent.write(agent_line(self._record.run_id, self._redact(prompt.text), one, outcome))
        self._audience.episode_judged(index, total, judgement)

    def _attempt(self, episode: str, attempt: int, prompt: str) -> AttemptEnded | None:
        """One attempt, armed first and healed last; None if it could not be armed and so was not run."""
        settings = self.settings
        named = toxics_in_force(settings, self._control.faults_set())
        plan = plan_toxics(settings.seed, settings.toxic_prob, settings.toxic_specs, episode, attempt, named)
        armed = self._control.arm(episode, attempt, plan, settings.arm_timeout)
        if armed.arming_ms is None:
            why = f": {armed.why_not}" if armed.why_not else ""
            reason = f"not armed within {settings.arm_timeout:g} s, not run{why}"
            self._emit(AttemptHealed(time.time(), episode, attempt, None, reason))
            self._not_armed += 1
            self._why_not = reason
            return None
        self._not_armed = 0
        self._emit(AttemptArmed(time.time(), episode, attempt, armed.arming_ms, plan))
        ended = self._emit(self._fly(episode, attempt, prompt))
        healed = self._control.finish(armed.attempt_id, settings)
        reasons = list(healed.disturbed)
        if healed.state != "healed":
            reasons.append(f"not healed: its state is {healed.state}")
        invalid = "; ".join(reasons) or None
        self._emit(AttemptHealed(time.time(), episode, attempt, healed.settled, invalid))
        return ended

    def _fly(self, episode: str, attempt: int, prompt: str) -> AttemptEnded:
        identity = Identity(self._record.run_id, episode, attempt)
        context = AttemptContext(identity, self.settings, self._topology, self._emit)
        start, clock = time.time(), time.perf_counter()
        try:
            result = self._subject(prompt, context)
        except Exception as error:  # noqa: BLE001 - a subject of any kind may raise anything: its crash
            result = SubjectResult("exception", error_type=type(error).__name__, error=str(error))
        return AttemptEnded(
            episode=episode,
            attempt=attempt,
            start=start,
            end=time.time(),
            ms=(time.perf_counter() - clock) * 1000,
            ended_by=result.ended_by,
            report=result.report,
            response=result.response,
            error_type=result.error_type,
            error=result.error,
        )

    # judging

    def _judge(self, episode: str) -> EpisodeJudgement:
        for tail in self._tails:
            self._take(tail.read())
        mine = [event for event in self._record.events if getattr(event, "episode", None) == episode]
        judgement = judge_episode(mine)
        self._record.judgements[episode] = judgement
        self._emit(judgement.as_event(time.time()))
        return judgement

    def _take(self, events: Sequence[Event]) -> None:
        """What gateway and manager wrote; of faults that were set meanwhile the people are told."""
        self._record.events += events
        for event in events:
            if isinstance(event, FaultsSet):
                self._logs.tell(event)
                self._audience.say(told_of(event))

    def _read_world(self, episode: str) -> bool:
        """Records the world's side effects; False if they are what was last read."""
        error, effects = None, []
        try:
            found = read_effects(self._places.effects, world_of(self._record.run_id, episode))
            effects = [asdict(effect) for effect in found]
        except sqlite3.Error as failure:
            error = str(failure)
        read = [
            event
            for event in self._record.events
            if isinstance(event, WorldRead) and event.episode == episode
        ]
        if read and read[-1].effects == effects and read[-1].error == error:
            return False
        self._emit(WorldRead(time.time(), episode, effects, error))
        return True

    def _judge_late_effects(self) -> None:
        """Side effects that came after an episode had been judged: appended, and judged again."""
        for episode, before in list(self._record.judgements.items()):
            if self._read_world(episode):
                after = self._judge(episode)
                self._audience.say(
                    f"prompt {episode}: a side effect came late; {before.outcome} is now {after.outcome}"
                )

    def _emit(self, event: E) -> E:
        """Records the event in the history, in memory and in the logs; returns it without any secret."""
        line = dump_line(event)
        clean = self._redact(line)
        if clean != line:
            event = cast(E, parse_line(clean.encode(), self._path, 0))
        self._writer.write_line(clean)
        self._record.events.append(event)
        self._logs.tell(event)
        return event


def new_run_id() -> str:
    """Sorts by time; the end keeps runs apart that start in the same second."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


def worth_another(ended: AttemptEnded) -> bool:
    """Whether a further attempt follows: only on what an agent can see of itself."""
    return ended.ended_by in ("exception", "empty", "limit") or (
        ended.report is not None and ended.report.status != "done"
    )
