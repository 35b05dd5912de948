"""What a run leaves: its history and its logs on disk, the same in memory for its summary."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from wirefault.history.events import (
    AttemptEnded,
    ConnectionEnded,
    Event,
    FaultsSet,
    Level,
    Note,
    RunFinished,
    RunSealed,
    WorldRead,
)
from wirefault.history.logs import Logs, agent_line, faults_set_message
from wirefault.history.reader import Tail, parse_line, tells_of_found_link, with_found_links
from wirefault.history.writer import Writer, dump_line, history_file
from wirefault.judging.judge import EpisodeJudgement, judge_episode
from wirefault.state.effects import read_effects, world_of

# the other processes that write a history, each a file of its own
_OTHERS = ("gateway", "manager", "ingress")
_EventT = TypeVar("_EventT", bound=Event)


@dataclass
class RunRecord:
    """What the run left in memory, for its summary; the same is in its history.

    ``reason``: why it is not ``completed``; ``interrupted``: a person ended it; ``launcher_tells``: the
    launcher, which ended the run, says why to the user by itself.
    """

    run_id: str
    events: list[Event] = field(default_factory=list)
    judgements: dict[str, EpisodeJudgement] = field(default_factory=dict)
    completed: bool = False
    reason: str = ""
    interrupted: bool = False
    launcher_tells: bool = False
    toxics_left: int | None = None
    _of_episodes: dict[str, list[Event]] = field(default_factory=dict, repr=False)

    def add(self, events: Iterable[Event]) -> None:
        """Takes the events in, which come after those that it has."""
        for event in events:
            self.events.append(event)
            episode = getattr(event, "episode", None)
            if episode is not None:
                self._of_episodes.setdefault(episode, []).append(event)

    def of_episode(self, episode: str) -> list[Event]:
        """All events of one episode, without a look at those of others: a run may have many."""
        return list(self._of_episodes.get(episode, ()))

    def complete_with_found_links(self) -> None:
        """Adds what links that were found meanwhile say of events that are here already."""
        events = with_found_links(self.events)
        self.events, self._of_episodes = [], {}
        self.add(events)


class Recorder:
    """Keeps the record of one run. ``redact`` takes secrets out of whatever is recorded, as a line of JSON.

    ``seal``: the hash of the line that seals the run, empty until it is finished.
    Raises ``OSError`` where the disk does not take it.
    """

    def __init__(self, run_id: str, lane: int, logs: Path, redact: Callable[[str], str]) -> None:
        self.record = RunRecord(run_id)
        self.seal = ""
        self.logs = Logs(logs, run_id)
        self._redact = redact
        self._last_attempts: dict[str, tuple[str, AttemptEnded]] = {}
        self._path = history_file(logs, run_id, "agent", lane)
        self._writer = Writer(self._path)
        self._tails = [Tail(history_file(logs, run_id, process, lane)) for process in _OTHERS]
        self._said: set[str] = set()

    def emit(self, event: _EventT) -> _EventT:
        """Records the event in the history, in memory and in the logs; returns it without any secret."""
        clean, event = self._without_secrets(event)
        self._writer.write_line(clean)
        self.record.add([event])
        self.logs.tell(event)
        return event

    def finish(self, finished: RunFinished) -> None:
        """Records the run's end, and seals what was written and read until now, in one ``write``.

        What the others write after the last ``take_from_others`` comes after the seal.
        """
        clean, finished = self._without_secrets(finished)
        seal = RunSealed({tail.name: tail.sealed() for tail in self._tails})
        self._writer.write_lines([clean, dump_line(seal)])
        self.seal = self._writer.head
        self.record.add([finished, seal])

    def _without_secrets(self, event: _EventT) -> tuple[str, _EventT]:
        """The event as a line of JSON and as itself."""
        line = dump_line(event)
        clean = self._redact(line)
        if clean != line:
            event = cast(_EventT, parse_line(clean.encode(), self._path, 0))
        return clean, event

    def note(self, level: Level, message: str) -> None:
        self.emit(Note(time.time(), level, message))

    def take_from_others(self) -> list[Event]:
        """Reads what the others wrote since the last call, adds it to the record and returns it."""
        events = [event for tail in self._tails for event in tail.read()]
        self.record.add(events)
        if any(map(tells_of_found_link, events)):
            self.record.complete_with_found_links()
        for event in events:
            if isinstance(event, ConnectionEnded):
                self._say_once(event.not_intercepted)
        return events

    def _say_once(self, sentence: str) -> None:
        """Notes what was not intercepted, since no fault can have struck it."""
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            self.note("warning", sentence)

    def attempt_line(self, prompt: str, ended: AttemptEnded, outcome: str | None) -> None:
        """Writes the attempt's line of agent.log; ``outcome`` is None if another attempt followed it."""
        prompt = self._redact(prompt)
        self._last_attempts[ended.episode] = prompt, ended
        self.logs.agent.write(agent_line(self.record.run_id, prompt, ended, outcome))

    def correct_outcome(self, episode: str, outcome: str) -> None:
        """Writes the line of the episode's last attempt again, if it has one, with this outcome."""
        if episode in self._last_attempts:
            prompt, ended = self._last_attempts[episode]
            self.logs.agent.write(agent_line(self.record.run_id, prompt, ended, outcome, supersedes=True))

    def close(self) -> None:
        self._writer.close()
        self.logs.close()


class EpisodeJudge:
    """Reads the worlds from the tools' database ``effects`` and judges. ``say`` takes messages for people."""

    def __init__(self, recorder: Recorder, effects: Path, say: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._record = recorder.record
        self._effects = effects
        self._say = say
        self._late: set[str] = set()

    def judge(self, episode: str) -> EpisodeJudgement:
        """Judges the episode by all that is recorded of it until now, and records the judgement."""
        self._take_from_others()
        judgement = judge_episode(self._record.of_episode(episode))
        self._record.judgements[episode] = judgement
        self._recorder.emit(judgement.as_event(time.time()))
        return judgement

    def judge_late_effects(self) -> None:
        """Side effects and requests that ended after an episode had been judged: it is judged again."""
        self._take_from_others()
        for episode, before in list(self._record.judgements.items()):
            changed = self.read_world(episode)
            if not changed and episode not in self._late:
                continue
            after = self.judge(episode)
            if after.outcome != before.outcome:
                self._recorder.correct_outcome(episode, after.outcome)
            if changed or after.outcome != before.outcome:
                what = "a side effect" if changed else "the end of a request"
                self._say(f"prompt {episode}: {what} came late; {before.outcome} is now {after.outcome}")

    def read_world(self, episode: str) -> bool:
        """Records the world's side effects; False if they are what was last read."""
        error, effects = None, []
        try:
            world = world_of(self._record.run_id, episode)
            effects = [asdict(effect) for effect in read_effects(self._effects, world)]
        except sqlite3.Error as failure:
            error = str(failure)
        read = [event for event in self._record.of_episode(episode) if isinstance(event, WorldRead)]
        if read and read[-1].effects == effects and read[-1].error == error:
            return False
        self._recorder.emit(WorldRead(time.time(), episode, effects, error))
        return True

    def _take_from_others(self) -> None:
        """Reads what gateway and manager wrote, and reports the fault sets that were set on the lab."""
        for event in self._recorder.take_from_others():
            episode = getattr(event, "episode", "")
            if episode in self._record.judgements:
                self._late.add(episode)
            if isinstance(event, FaultsSet):
                self._recorder.logs.tell(event)
                self._say(faults_set_message(event))
