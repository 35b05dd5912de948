"""A kill or a resume in which the lab fails makes the episode invalid; the agent did not fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.judging.oracle.histories import EPISODE, judge_episode, run_started, started, world
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import Event
from wirefault.runner.attempts import AttemptRunner
from wirefault.settings.settings import Settings
from wirefault.state.state import State
from wirefault.state.tables import KillOrder
from wirefault.subjects.killing import LabFailed
from wirefault.subjects.results import answer_result
from wirefault.subjects.subject import AttemptContext, SubjectResult
from wirefault.wiring.links import lab_links
from wirefault.wiring.prompts import Prompt

KILL = {"faults": [{"id": "crash", "fault": "kill_subject", "links": "message"}]}
RUN = "run-1"


class FakeManager:
    """Arms and heals every attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open_state(self) -> State:
        return State(self._folder / "state.db")

    def faults_set_in_run(self) -> None:
        return None

    def found_links(self, *_: object) -> tuple[()]:
        return ()

    def arm(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(attempt_id=1, arming_ms=1.0, why_not="")

    def finish(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(disturbed=[], state="healed", settled=True)


def run_attempt(folder: Path, subject: Any) -> list[Event]:
    """The history of an attempt at which the subject may be killed."""
    events: list[Event] = [run_started(), started()]

    def emit(event: Event) -> Event:
        events.append(event)
        return event

    recorder = SimpleNamespace(emit=emit, record=SimpleNamespace(run_id=RUN))
    topology = SimpleNamespace(links=lab_links(), lab_id="lab", lane=0)
    settings = Settings.model_validate({"seed": 1, "faults": KILL}, context={"links": lab_links()})
    runner = AttemptRunner(
        cast(Any, recorder), cast(Any, FakeManager(folder)), cast(Any, topology), subject, folder
    )
    runner.carry_out(settings, read_canonical(settings.faults), 1, Prompt(EPISODE, "Message Bob"))
    return [*events, world()]


def not_resumed(_prompt: str, _context: AttemptContext) -> SubjectResult:
    raise LabFailed("kill_subject: the gateway has not closed the killed subject's connections")


@pytest.mark.parametrize("failure", ["subject not resumed", "order not carried out"])
def test_failed_kill_makes_episode_invalid(failure: str, tmp_path: Path) -> None:
    def answers(_prompt: str, context: AttemptContext) -> SubjectResult:
        assert context.kills is not None
        order = KillOrder(RUN, EPISODE, 1, 1, "message", "crash", "before_reply", "kill", 1, 0, "failed")
        with State(tmp_path / "state.db") as state:
            state.kills.add(order)
        return answer_result("sent")

    subject = not_resumed if failure == "subject not resumed" else answers
    judged = judge_episode(run_attempt(tmp_path, subject))
    assert judged.outcome == "invalid"
    assert "kill_subject" in judged.why
