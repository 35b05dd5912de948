"""Record a run: history and logs on disk, the same in memory, and its judgements."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from wirefault.core.files import replace_shared
from wirefault.core.redaction import Redaction
from wirefault.dialects.outages import CASSETTE_MISS
from wirefault.history.events import (
    TLS_ON_PLAIN,
    AttemptEnded,
    ConnectionEnded,
    EpisodeJudged,
    ErrorClass,
    Event,
    FaultsSet,
    InterceptionFailed,
    Level,
    Note,
    RunFinished,
    RunSealed,
    RunStarted,
    WentPastLab,
    WorldRead,
)
from wirefault.history.lines import dump_event
from wirefault.history.logs import Logs, agent_line, faults_set_message
from wirefault.history.reader import EventIds, Tail, changes_found_links, parse_line, with_found_links
from wirefault.history.writer import Writer, history_file
from wirefault.judging.chart_data import CHARTS_FILE, RunData, encode_run
from wirefault.judging.evidence.toxics import has_failed
from wirefault.judging.judge import judge_trace
from wirefault.judging.rates import CLAIM_WORDS, is_unchecked_claim
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace, traces_of
from wirefault.state.effects import read_effects, world_key

# the other processes, each with its own history file
_OTHERS = ("gateway", "manager", "ingress")
_EventT = TypeVar("_EventT", bound=Event)


@dataclass
class RunRecord:
    """A run in memory, for its summary; the history has the same.

    ``reason`` says why it is not ``completed``; ``interrupted``: by a person; ``launcher_tells``: the
    launcher ended the run and tells the user why.
    """

    run_id: str
    events: list[Event] = field(default_factory=list)
    judgements: dict[str, EpisodeJudged] = field(default_factory=dict)
    completed: bool = False
    reason: str = ""
    interrupted: bool = False
    launcher_tells: bool = False
    toxics_left: int | None = None
    lane: int = 0
    _ids: EventIds = field(init=False, repr=False)
    _of_episodes: dict[str, list[tuple[str, Event]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids, self._of_episodes = EventIds(self.lane), {}

    def add(self, events: Iterable[Event]) -> None:
        """Append events."""
        for event in events:
            self.events.append(event)
            id = self._ids.next(event)
            episode = getattr(event, "episode", None)
            if episode is not None:
                self._of_episodes.setdefault(episode, []).append((id, event))

    def of_episode(self, episode: str) -> list[Event]:
        """All events of one episode, without scanning the others."""
        return [event for _, event in self._of_episodes.get(episode, ())]

    def trace_of(self, episode: str) -> EpisodeTrace:
        """The trace of an episode that has started."""
        started = next(event for event in self.events if isinstance(event, RunStarted))
        [trace] = traces_of([("", started), *self._of_episodes[episode]])
        return trace

    def complete_with_found_links(self) -> None:
        """Complete earlier events with links that were found later."""
        events, self.events = with_found_links(self.events), []
        self._ids, self._of_episodes = EventIds(self.lane), {}
        self.add(events)


class Recorder:
    """Keeps the record of one run. ``redaction`` removes secrets from each line of JSON.

    ``seal`` is the hash of the sealing line, empty until the run is finished. Raises ``OSError`` if the disk
    is full or not writable.
    """

    def __init__(self, run_id: str, lane: int, logs: Path, redaction: Redaction) -> None:
        self.record = RunRecord(run_id, lane=lane)
        self.seal = ""
        self.logs = Logs(logs, run_id)
        self._redaction = redaction
        self._last_attempts: dict[str, tuple[str, AttemptEnded]] = {}
        self._processed = self._succeeded = 0
        self._logs_folder = logs
        self._path = history_file(logs, run_id, "agent", lane)
        self._writer = Writer(self._path)
        self._tails = [Tail(history_file(logs, run_id, process, lane)) for process in _OTHERS]
        self._said: set[str] = set()
        self._writing = threading.Lock()

    def emit(self, event: _EventT) -> _EventT:
        """Record the event in history, memory and logs; return it without secrets."""
        clean, event = self.without_secrets(event)
        with self._writing:
            if self.seal:  # the agent's own thread may still report after the end of an interrupted run
                return event
            self._writer.write_lines([clean])
            self.record.add([event])
        self.logs.tell(event)
        return event

    def finish(self, finished: RunFinished) -> None:
        """Record the run's end and seal everything written and read until now, in one ``write``.

        Later lines of other processes come after the seal.
        """
        clean, finished = self.without_secrets(finished)
        seal = RunSealed({tail.name: tail.sealed() for tail in self._tails})
        with self._writing:
            self._writer.write_lines([clean, dump_event(seal)])
            self.seal = self._writer.head
            self.record.add([finished, seal])

    def store_charts(self, data: RunData) -> None:
        """Store the data of the run's charts in the folder of its history."""
        path = self._path.with_name(CHARTS_FILE)
        replace_shared(self._logs_folder, path, encode_run(data))

    def without_secrets(self, event: _EventT) -> tuple[bytes, _EventT]:
        """The redacted event, as a line of JSON and as an object."""
        line = dump_event(event)
        clean = self._redaction.text(line.decode(), in_json=True).encode()
        if clean != line:
            event = cast(_EventT, parse_line(clean, self._path, 0))
        return clean, event

    def note(self, level: Level, message: str) -> None:
        self.emit(Note(time.time(), level, message))

    def take_from_others(self) -> list[Event]:
        """Read, add and return the new events of the other processes."""
        events = [event for tail in self._tails for event in tail.read()]
        self.record.add(events)
        if any(map(changes_found_links, events)):
            self.record.complete_with_found_links()
        for event in events:
            if isinstance(event, ConnectionEnded):
                self._say_once(event.not_intercepted)
            elif isinstance(event, WentPastLab) and event.link:
                self._say_once(event.sentence)
            elif isinstance(event, InterceptionFailed) and event.why != "closed_at_certificate":
                self._say_once(event.text)
        return events

    def _say_once(self, sentence: str) -> None:
        """Note a connection that was not intercepted: no fault can reach it."""
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            self.note("warning", sentence)

    def attempt_lines(self, trace: EpisodeTrace, judgement: EpisodeJudged) -> None:
        """Write a line of agent.log for each attempt at a judged episode; the last one has the outcome."""
        ends = [
            replace(ended, error_class=attempt_error_class(trace, ended)) for ended in trace.all(AttemptEnded)
        ]
        for ended in ends:
            outcome = judgement.outcome if ended is ends[-1] else None
            self.logs.agent.write(agent_line(self.record.run_id, judgement.prompt, ended, outcome))
            self._last_attempts[trace.episode] = judgement.prompt, ended

    def progress_line(self, index: int, judged: EpisodeJudged) -> None:
        """Write the line of info.log on the prompt at that place (from 1), with the counts so far."""
        episode, outcome = judged.episode, judged.outcome
        is_unchecked = is_unchecked_claim(outcome, judged.claim, self.record.trace_of(episode).has_oracle)
        claim: dict[str, Any] = {"claim": judged.claim} if is_unchecked else {}
        self._processed += 1
        self._succeeded += outcome == "success"
        self.logs.line(
            "prompt_processed",
            f"prompt {index}: {outcome}" + (f", {CLAIM_WORDS[judged.claim]}" if claim else ""),
            episode=episode,
            outcome=outcome,
            **claim,
            prompt_index=index,
            processed_count=self._processed,
            success_count=self._succeeded,
        )

    def correct_outcome(self, episode: str, outcome: str) -> None:
        """Write the line of the episode's last attempt again with this outcome."""
        if episode in self._last_attempts:
            prompt, ended = self._last_attempts[episode]
            self.logs.agent.write(agent_line(self.record.run_id, prompt, ended, outcome, supersedes=True))

    def close(self) -> None:
        self._writer.close()
        self.logs.close()


class EpisodeJudge:
    """Reads the worlds from the database ``effects`` and judges. ``say`` takes messages for people."""

    def __init__(self, recorder: Recorder, effects: Path, say: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._record = recorder.record
        self._effects = effects
        self._say = say
        self._judged_at: dict[str, int] = {}  # the number of the episode's events then

    def judge(self, episode: str) -> EpisodeJudged:
        """Judge the episode by its record until now. Record the judgement, and log its attempts."""
        self._take_from_others()
        trace = self._record.trace_of(episode)
        judgement = self._judge(trace)
        self._recorder.attempt_lines(trace, judgement)
        return judgement

    def _judge(self, trace: EpisodeTrace) -> EpisodeJudged:
        episode, judgement = trace.episode, judge_trace(trace)
        self._recorder.emit(judgement.to_history(time.time()))
        self._record.judgements[episode] = judgement
        self._judged_at[episode] = len(self._record.of_episode(episode))
        return judgement

    def judge_late_effects(self) -> None:
        """Judge episodes again that got events or side effects after their judgement."""
        self._take_from_others()
        for episode, before in list(self._record.judgements.items()):
            changed = self.read_world(episode)
            if len(self._record.of_episode(episode)) == self._judged_at[episode]:
                continue
            after = self._judge(self._record.trace_of(episode))
            if after.outcome != before.outcome:
                self._recorder.correct_outcome(episode, after.outcome)
            if changed or after.outcome != before.outcome:
                what = "a side effect" if changed else "the end of a request"
                self._say(f"prompt {episode}: {what} came late; {before.outcome} is now {after.outcome}")

    def read_world(self, episode: str) -> bool:
        """Record the world's side effects; False if unchanged."""
        error, effects = None, []
        try:
            world = world_key(self._record.run_id, episode)
            effects = [asdict(effect) for effect in read_effects(self._effects, world)]
        except sqlite3.Error as failure:
            error = str(failure)
        read = [event for event in self._record.of_episode(episode) if isinstance(event, WorldRead)]
        if read and read[-1].effects == effects and read[-1].error == error:
            return False
        self._recorder.emit(WorldRead(time.time(), episode, effects, error))
        return True

    def _take_from_others(self) -> None:
        """Read the events of gateway and manager, and report fault sets that were set on the lab."""
        for event in self._recorder.take_from_others():
            if isinstance(event, FaultsSet):
                self._recorder.logs.tell(event)
                self._say(faults_set_message(event))


def attempt_error_class(trace: EpisodeTrace, ended: AttemptEnded) -> ErrorClass:
    """Classify an attempt by all its failures, not only by the exception that ended it.

    ``network`` if all its tries failed in the network. If the agent reports a failure, the class of the last
    call that never succeeded. Otherwise the class that the subject recorded. Only tool requests count; if the
    attempt has none, model requests count.
    """
    if ended.ended_by == "exception" and ended.error_class == "none":
        return "none"  # the lab failed
    own = [request for request in trace.requests if request.attempt == ended.attempt]
    requests = [request for request in own if not request.of_model] or own
    failures = [(request.of_model, _failure(request)) for request in own]
    failures += [(of_model, "network") for of_model in _failed_connections(trace, ended.attempt)]
    failed = [failure for of_model, failure in failures if not of_model] or [each for _, each in failures]
    if failed and all(failure == "network" for failure in failed):
        return "network"
    reported = ended.report is not None and ended.report.status != "done"
    if not reported or ended.error_class != "none":
        return ended.error_class
    if not any(not request.of_model for request in own) and _may_be_hidden(trace, ended.attempt):
        return "network"
    return _class_of_open_calls(requests)


def _failed_connections(trace: EpisodeTrace, attempt: int) -> Iterator[bool]:
    """Yield for each failed connection of the attempt whether it was to a model."""
    of_model = {link.name for link in trace.links if link.is_model}
    for failed in trace.all(InterceptionFailed):
        if failed.attempt == attempt:
            yield failed.link in of_model
    for ended in trace.connections:
        if ended.attempt == attempt and has_failed(ended, (), ()):
            yield ended.link in of_model


def _may_be_hidden(trace: EpisodeTrace, attempt: int) -> bool:
    """Whether only a toxic can have kept the requests of a subject without records from the gateway."""
    links = {link for each, link in trace.toxic_links if each == attempt}
    return not trace.keeps_record and bool(trace.hidden_links & links)


def _failure(request: Request) -> ErrorClass:
    """The class of a request's failure; ``none`` for a success, and if it is unknown whether it failed."""
    if request.reply_lost or _was_not_reached(request):
        return "network"
    return "server" if request.failed else "none"


def _was_not_reached(request: Request) -> bool:
    """Whether no server was reached, and the gateway answered in its place."""
    exchange = request.exchange
    if exchange is None or request.injected or (exchange.error or "").startswith(CASSETTE_MISS):
        return False
    return exchange.error == TLS_ON_PLAIN or (exchange.unavailable and not exchange.forwarded)


def _class_of_open_calls(requests: Sequence[Request]) -> ErrorClass:
    """The class of the last call that never succeeded; tries for the same are one call."""
    last = {request.same or request.ids: request for request in requests}
    failures = [failure for request in last.values() if (failure := _failure(request)) != "none"]
    return failures[-1] if failures else "none"
