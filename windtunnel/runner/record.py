"""What a run leaves: its history and its logs on disk, the same in memory for its summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from windtunnel.history.events import (
    AttemptEnded,
    ConnectionEnded,
    Event,
    Level,
    Note,
    RunFinished,
    RunSealed,
)
from windtunnel.history.found_links import with_found_links
from windtunnel.history.logs import Logs, agent_line
from windtunnel.history.reader import Tail, parse_line
from windtunnel.history.writer import Writer, dump_line, history_file
from windtunnel.judging.judge import EpisodeJudgement

# the other processes that write a history, each a file of its own
_OTHERS = ("gateway", "manager", "front")
_EventT = TypeVar("_EventT", bound=Event)


@dataclass
class RunRecord:
    """What the run left in memory, for its summary; the same is in its history.

    ``reason``: why it is not ``completed``; ``interrupted``: a person ended it; ``launcher_tells``: the
    launcher, which lost a part of the lab, says it to the user by itself.
    """

    run_id: str
    events: list[Event] = field(default_factory=list)
    judgements: dict[str, EpisodeJudgement] = field(default_factory=dict)
    completed: bool = False
    reason: str = ""
    interrupted: bool = False
    launcher_tells: bool = False
    toxics_left: int | None = None


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
        self.record.events.append(event)
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
        self.record.events += [finished, seal]

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
        self.record.events[:] = with_found_links([*self.record.events, *events])
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
