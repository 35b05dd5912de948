"""An engine that writes histories, as several workers would, and that may be killed or interrupted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.experiments.recorded_runs import episode_events, write
from tests.judging.oracle.histories import (
    ASK_BOB,
    episode,
    exchange,
    fault_met,
    judge_episode,
    run_finished,
    run_started,
)
from tests.support import replace
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.events import EpisodeJudged, Event
from wirefault.lab.toxiproxy import Choice
from wirefault.toxiproxy.planned import VERIFIED

Fails = Callable[[PlannedArm, str], bool]


class Killed(BaseException):
    """As ``kill -9``: nothing of the experiment runs after it."""


@dataclass
class Dealer:
    """Deals the episodes to workers that end in any order; an episode fails by its arm and key."""

    fails: Fails
    workers: int = 1
    ends_after: float = math.inf
    """Episodes; the history then has no end."""
    kills: bool = False
    """It ends by ``Killed``, else as interrupted."""
    calls: bool = False
    """The agent orders in each episode; with faults the reply is lost."""
    ran: list[str] = field(default_factory=list)

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        def run_arm(grown: SavedExperiment, arm: PlannedArm) -> int:
            left = grown.left_of(arm)
            hands = [left[lane :: self.workers] for lane in range(self.workers) if left[lane :: self.workers]]
            runs = list(zip(grown.next_run_ids(arm, len(hands)), hands, strict=True))
            random.Random(self.workers).shuffle(runs)
            codes = (
                self.write(grown.logs, arm, run_id, [each.key for each in hand]) for run_id, hand in runs
            )
            return max(codes, default=0)

        code = run_arms(run_arm)
        saved.note_end(rollback=VERIFIED)
        return code

    def write(self, logs: Path, arm: PlannedArm, run_id: str, keys: Sequence[str]) -> int:
        """Write the history of a run with these episodes. Raises ``Killed``."""
        events: list[Event] = [run_started(len(keys))]
        for key in keys:
            if len(self.ran) >= self.ends_after:
                write(logs, run_id, events)
                if self.kills:
                    raise Killed
                return INTERRUPTED
            self.ran.append(f"{arm.name} {key}")
            if self.calls:
                events += episode_with_call(key, faulted=not arm.is_calm)
            else:
                happened = failed_episode if self.fails(arm, key) else episode_events
                events += happened(key)
        write(logs, run_id, [*events, replace(run_finished(), toxics_left=0)])
        return 0


def failed_episode(key: str) -> list[Event]:
    """One whose message was never sent."""
    return _judged(key, episode(expect=ASK_BOB))


def episode_with_call(key: str, *, faulted: bool) -> list[Event]:
    fault = {"fault": fault_met("lose_reply", id="lost")} if faulted else {}
    return _judged(key, episode(exchange("shop", method="POST", target="/orders", **fault), expect={}))


def _judged(key: str, events: Sequence[Event]) -> list[Event]:
    events = [replace(event, episode=key) for event in events]
    judged = judge_episode(events)
    assert isinstance(judged, EpisodeJudged)
    return [*events, replace(judged, t=1.0)]


def on_paper(workers: int = 1) -> RunControl:
    return RunControl(Choice("embedded"), lambda _: None, workers)


def sometimes(arm: PlannedArm, key: str) -> bool:
    """With faults a fifth of the keys fail, whatever the arm."""
    return not arm.is_calm and random.Random(key).random() < 0.2


def both_down(arm: PlannedArm, _: str) -> bool:
    return "a-down" in arm.settings.faults and "b-down" in arm.settings.faults
