"""Checkpoints: what an attempt that failed, or whose process was killed, does not do again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.checkpoints import Checkpoints, open_checkpoints
from agent.loop import STORED_TYPES, Agent
from tests.agent.support import SEND, WEATHER, Clock, Script, Wire, asks, context_in, http, lab_of, reports
from tests.support import PATIENCE_S, ROOT, replace
from wirefault.history.events import Event, RecoveryTried, Report, ToolCalled
from wirefault.recovery.strategies import parse_recovery
from wirefault.subjects.subject import SubjectResult
from wirefault.wiring.topology import Topology

GOOD = http(200, {"temp": 8})
BROKEN = RuntimeError("the model has gone")


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Checkpoints]:
    with open_checkpoints(tmp_path / "state" / "checkpoints.db", "async", STORED_TYPES) as opened:
        yield opened


def attempt(
    topology: Topology,
    memories: Checkpoints | None,
    *replies: Any,
    number: int = 1,
    turns: tuple[str, ...] = (),
    recovery: str = "keys, checkpoint",
) -> tuple[SubjectResult, list[Event], list[int]]:
    clock, events, begun = Clock(), list[Event](), list[int]()
    context = context_in(topology, events, attempt=number)
    context = replace(context, turns=turns, begin_turn=lambda turn, _text: begun.append(turn))
    strategies = parse_recovery(recovery)
    agent = Agent(
        *(Script(replies=list(replies)), "subject", clock.sleep, clock),
        recovery=strategies,
        memories=memories,
    )
    return agent("the prompt", context), events, begun


def keys(wire: Wire) -> list[str | None]:
    return [request.headers.get("idempotency-key") for request in wire.received]


def test_failed_attempt_continues_in_next_one(wire: Callable[..., Wire], memories: Checkpoints) -> None:
    server = wire(http(201, {"id": 1, "status": "sent"}))
    first, *_ = attempt(lab_of(server.address), memories, asks(SEND), BROKEN)
    assert first.error_type == "RuntimeError"
    second, events, _ = attempt(lab_of(server.address), memories, reports(), number=2)
    assert second.report == Report("done", "It is done.", [])
    assert len(server.received) == 1
    [restored] = [event for event in events if isinstance(event, RecoveryTried)]
    assert (restored.strategy, restored.number, restored.success) == ("checkpoint", 1, True)
    assert restored.preserved == "1 model replies, 1 tool results"


def test_without_checkpoint_next_attempt_repeats_effect(wire: Callable[..., Wire]) -> None:
    server = wire(http(201, {"id": 1, "status": "sent"}))
    attempt(lab_of(server.address), None, asks(SEND), BROKEN)
    attempt(lab_of(server.address), None, asks(SEND), reports(), number=2)
    assert len(set(keys(server))) == 2


def test_continued_conversation_keeps_keys_by_step(wire: Callable[..., Wire], memories: Checkpoints) -> None:
    server = wire(GOOD, http(201, {"id": 1, "status": "sent"}))
    turns = ("How warm is it?", "Send it to Bob.")
    topology = lab_of(server.address)
    replies = [asks(WEATHER), reports("done", "It is 8."), asks(SEND)]
    attempt(topology, memories, *replies, BROKEN, turns=turns)
    result, events, begun = attempt(topology, memories, asks(SEND), reports(), number=2, turns=turns)
    assert result.answers == ("It is 8.", "It is done.") and begun == [2]
    assert [event.reply for event in events if isinstance(event, ToolCalled)] == [4]
    assert len(server.received) == 3 and len({key for key in keys(server) if key}) == 2


def test_finished_attempt_is_not_continued(wire: Callable[..., Wire], memories: Checkpoints) -> None:
    server = wire(http(201, {"id": 1, "status": "sent"}))
    attempt(lab_of(server.address), memories, asks(SEND), reports("failed"))
    _, events, _ = attempt(lab_of(server.address), memories, asks(SEND), reports(), number=2)
    assert len(server.received) == 2
    assert not [event for event in events if isinstance(event, RecoveryTried)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("durability", "when", "sends", "preserved"),
    [
        ("sync", "anyhow", 1, ["1 model replies, 1 tool results"]),
        ("async", "stored", 1, ["1 model replies, 1 tool results"]),
        ("async", "storing", 2, ["1 model replies"]),
        ("exit", "anyhow", 2, []),
    ],
)
def test_durability_decides_whether_killed_process_repeats_effect(
    wire: Callable[..., Wire], tmp_path: Path, durability: str, when: str, sends: int, preserved: list[str]
) -> None:
    """``async`` stores a step while the next one runs, so the kill comes after that or before."""
    server = wire(http(201, {"id": 1, "status": "sent", "messages": []}))
    file, killed = tmp_path / "checkpoints.db", tmp_path / "killed"
    recovery, second = f"checkpoint(durability={durability})", "2"
    words = [str(server.address.port), str(file), recovery, str(killed), second, when]
    command = [sys.executable, "-m", "tests.agent.killed_agent", *words]
    run = partial(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert run().returncode == -signal.SIGKILL
    resumed = json.loads(run().stdout)
    assert resumed["response"] == "It is done."
    assert sum(request.method == "POST" for request in server.received) == sends
    events = [event for event in resumed["events"] if event["event"] == "recovery"]
    assert [event["preserved"] for event in events] == preserved
