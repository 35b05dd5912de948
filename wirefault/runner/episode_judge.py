"""Judges the episodes while the run goes on: each as it ends, and again if a side effect comes late."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from wirefault.core.worlds import read_effects, world_of
from wirefault.history.events import FaultsSet, WorldRead
from wirefault.history.logs import faults_set_message
from wirefault.judging.judge import EpisodeJudgement, judge_episode
from wirefault.runner.record import Recorder


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
