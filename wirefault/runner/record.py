"""What a run leaves: its history and its logs on disk, the same in memory for its summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from wirefault.history.events import (
    AttemptEnded,
    ConnectionEnded,
    Event,
    Level,
    Note,
    RunFinished,
    RunSealed,
)
from wirefault.history.found_links import tells_of_found_link, with_found_links
from wirefault.history.logs import Logs, agent_line
from wirefault.history.reader import Tail, parse_line
from wirefault.history.writer import Writer, dump_line, history_file
from wirefault.judging.judge import EpisodeJudgement

# the other processes that write a history, each a file of its own
_OTHERS = ("gateway", "manager", "front")
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
