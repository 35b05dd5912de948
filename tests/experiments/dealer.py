"""An engine that writes histories, as several workers would, and that may be killed or interrupted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tests.experiments.recorded_runs import episode_events, write
from tests.judging.findings.traced import LINKS, lost, request
from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    judge_episode,
    run_finished,
    run_started,
    started,
)
from tests.support import replace
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.events import EpisodeJudged, Event
from wirefault.lab.toxiproxy import Choice
from wirefault.toxiproxy.planned import VERIFIED
from wirefault.wiring.prompts import Prompt

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
    happens: Callable[[PlannedArm, str], list[Event]] | None = None
    """The events of an episode, instead of one that fails or succeeds."""
    of: str = ""
    """Whose episodes are noted in ``ran``."""
    ran: list[str] = field(default_factory=list)
    _writing: Lock = field(default_factory=Lock)

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        def run_arm(grown: SavedExperiment, arm: PlannedArm, left: Sequence[Prompt]) -> int:
            hands = [left[lane :: self.workers] for lane in range(self.workers) if left[lane :: self.workers]]
            with self._writing:  # an audit has several runs at once
                runs = list(zip(grown.next_run_ids(arm, len(hands)), hands, strict=True))
                random.Random(self.workers).shuffle(runs)
                keys = {run_id: [each.key for each in hand] for run_id, hand in runs}
                codes = (self.write(grown.logs, arm, run_id, of_run) for run_id, of_run in keys.items())
                return max(codes, default=0)

        code = run_arms(run_arm)
        saved.note_end(rollback=VERIFIED)
        return code

    def write(self, logs: Path, arm: PlannedArm, run_id: str, keys: Sequence[str]) -> int:
        """Write the history of a run with these episodes. Raises ``Killed``."""
        links = {"links": list(LINKS)} if self.happens is audited_episode else {}
        events: list[Event] = [replace(run_started(len(keys)), run_id=run_id, **links)]
        for key in keys:
            if len(self.ran) >= self.ends_after:
                write(logs, run_id, events)
                if self.kills:
                    raise Killed
                return INTERRUPTED
            self.ran.append(f"{self.of}{arm.name} {key}")
            if self.happens is not None:
                events += self.happens(arm, key)
            else:
                happened = failed_episode if self.fails(arm, key) else episode_events
                events += happened(key)
        write(logs, run_id, [*events, replace(run_finished(), toxics_left=0)])
        return 0


def failed_episode(key: str) -> list[Event]:
    """One whose message was never sent."""
    return _judged(key, episode(expect=ASK_BOB))


def episode_with_call(arm: PlannedArm, key: str) -> list[Event]:
    """An agent that orders; with faults the reply is lost."""
    fault = {} if arm.is_calm else {"fault": fault_met("lose_reply", id="lost")}
    return _judged(key, episode(exchange("shop", method="POST", target="/orders", **fault), expect={}))


def audited_episode(_: PlannedArm, key: str) -> list[Event]:
    """An agent that orders once; the first time that its order's reply is lost it orders again."""
    question, _, again = key.partition(".")
    orders = [request(0.1, status=201, fingerprint="order")]
    if question == "q01":
        fault = fault_met("lose_reply", id=question)
        orders = [lost(0.1, fingerprint="order", fault=fault, forwarded=True)]
        orders += [] if again == "r2" else [request(0.4, status=201, fingerprint="order")]
    elif question == "q02":
        fault = fault_met("status", id=question)
        orders = [request(0.1, status=503, fingerprint="order", fault=fault), request(0.4, status=201)]
    end = ended(ended_by="text", response="The order was placed.")
    return _judged(key, [started(prompt="Order tea"), armed(), *orders, end, healed()])


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
