"""Judging while the run goes on: each episode as it ends, and again if a side effect comes late."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from windtunnel.core.worlds import read_effects, world_of
from windtunnel.history.events import FaultsSet, WorldRead
from windtunnel.history.logs import faults_set_message
from windtunnel.judging.judge import EpisodeJudgement, judge_episode
from windtunnel.runner.record import Recorder


class Verdicts:
    """Reads the worlds from the tools' database ``effects`` and judges. ``say`` tells the people."""

    def __init__(self, recorder: Recorder, effects: Path, say: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._record = recorder.record
        self._effects = effects
        self._say = say

    def judge(self, episode: str) -> EpisodeJudgement:
        """The verdict by all that is recorded of the episode until now; it is recorded too."""
        self._take_from_others()
        mine = [event for event in self._record.events if getattr(event, "episode", None) == episode]
        judgement = judge_episode(mine)
        self._record.judgements[episode] = judgement
        self._recorder.emit(judgement.as_event(time.time()))
        return judgement

    def judge_late_effects(self) -> None:
        """Side effects that came after an episode had been judged: appended, and judged again."""
        for episode, before in list(self._record.judgements.items()):
            if self.read_world(episode):
                after = self.judge(episode)
                self._say(
                    f"prompt {episode}: a side effect came late; {before.outcome} is now {after.outcome}"
                )

    def read_world(self, episode: str) -> bool:
        """Records the world's side effects; False if they are what was last read."""
        error, effects = None, []
        try:
            found = read_effects(self._effects, world_of(self._record.run_id, episode))
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
        self._recorder.emit(WorldRead(time.time(), episode, effects, error))
        return True

    def _take_from_others(self) -> None:
        """What gateway and manager wrote; of faults that were set meanwhile the people are told."""
        for event in self._recorder.take_from_others():
            if isinstance(event, FaultsSet):
                self._recorder.logs.tell(event)
                self._say(faults_set_message(event))
