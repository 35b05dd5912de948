"""A side effect after the verdict: judged again, with a line in the agent's log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_tools.store import Store
from tests.judging.oracle.histories import (
    ASK_BOB,
    EPISODE,
    armed,
    ended,
    healed,
    run_finished,
    run_started,
    started,
    tried,
)
from wirefault.core.redaction import Redaction
from wirefault.runner.record import EpisodeJudge, Recorder
from wirefault.state.effects import world_key

RUN = "run-1"


class JudgedRun:
    """A run of one episode that nothing was done in, judged so."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[str] = []
        self.folder = folder
        self.recorder = Recorder(RUN, 0, folder, Redaction({"API_KEY": "the-secret"}))
        self.judge = EpisodeJudge(self.recorder, folder / "effects.db", self.messages.append)
        begun = started(ASK_BOB, prompt="Message Bob the-secret")
        for event in (run_started(1), begun, armed(), ended(), healed()):
            self.recorder.emit(event)
        self.judge.read_world(EPISODE)
        self.judge.judge(EPISODE)

    def message_bob(self) -> None:
        store = Store(self.folder / "effects.db", clock=lambda: 200.0)
        with store.writing(world_key(RUN, EPISODE), "message", "k1") as transaction:
            transaction.record("message_sent", {"to": "Bob", "body": "hi"})

    def agent_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "agent.log").read_text().splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[JudgedRun]:
    judged = JudgedRun(tmp_path)
    yield judged
    judged.recorder.close()


def test_late_effect_corrects_agents_log(run: JudgedRun) -> None:
    run.message_bob()
    run.judge.judge_late_effects()
    first, second = run.agent_log()
    assert (first["outcome"], "supersedes" in first) == ("false_success", False)
    assert second == first | {"outcome": "success", "supersedes": True}
    assert second["prompt"] == "Message Bob [secret]"
    assert run.messages == [f"prompt {EPISODE}: a side effect came late; false_success is now success"]


def test_nothing_is_written_after_the_seal(run: JudgedRun) -> None:
    run.recorder.finish(run_finished(completed=False))
    run.recorder.emit(tried(episode=EPISODE))  # by a thread of an agent that was interrupted
    last = (run.folder / "runs" / RUN / "agent-0.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["event"] == "run_sealed"


def test_no_late_effect_keeps_lines(run: JudgedRun) -> None:
    run.judge.judge_late_effects()
    assert len(run.agent_log()) == 1 and not run.messages
