"""Recordings to show on a page: synthetic runs, and a doubled order whose texts may be hostile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.judging.findings.traced import SHOP, request
from tests.judging.oracle.histories import (
    called,
    ended,
    episode,
    fault_met,
    healed,
    run_finished,
    run_started,
    started,
)
from tests.report.synthetic import SyntheticRun
from tests.support import replace
from wirefault.experiments.recorded import Recording, open_recording
from wirefault.history.events import Event, FaultedReply, RunSealed, SubjectKilled
from wirefault.history.reader import Tail
from wirefault.history.writer import Writer, history_file
from wirefault.wiring.links import Link

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\x00\u202e{{ 7*7 }}"
EPISODE = "e1"


def synthetic(folder: Path, prompts: int = 24) -> Recording:
    """A run of the lab with toxics and errors."""
    SyntheticRun(folder, prompts=prompts).write()
    return open_recording(folder, "run-a", {})


def doubled_order(
    folder: Path,
    text: str = "tea",
    *,
    run_id: str = "run-b",
    link: Link = SHOP,
    key: str = "",
    more: tuple[Sequence[Event], Sequence[Event]] = ((), ()),
) -> Recording:
    """An agent that orders twice after a lost reply. ``text``: in every field that can hold one.

    ``key``: of both orders, for idempotency. ``more``: further events of gateway and agent.
    """
    body = f'{{"item": "{text}"}}'
    reply = FaultedReply(f'{{"id": 1, "note": "{text}"}}', None)
    order = {"episode": EPISODE, "request_body": body, "fingerprint": body, "status": 201}
    order |= {"key": key} if key else {}
    target = f"/orders?{text}"
    gateway: list[Event] = [
        request(
            3.1, target, complete=(True, False), forwarded=True, faulted_reply=reply,
            fault=fault_met(kind="lose_reply", id=text, shows={"lost": True}), **order,
        ),
        request(3.2, target, call=2, **order),
        *more[0],
    ]  # fmt: skip
    start = replace(run_started(1), run_id=run_id, subject=text, links=[link])
    end = replace(ended(ended_by="text", response=f"Ordered. {text}"), episode=EPISODE)
    agent: list[Event] = [start, started(None, EPISODE, f"Order {text}"), *more[1], end]
    agent += [healed(episode=EPISODE), run_finished()]
    _write(folder, "gateway", gateway, run_id)
    record = Tail(history_file(folder, run_id, "gateway", 0))
    record.read()
    _write(folder, "agent", [*agent, RunSealed({record.name: record.sealed()})], run_id)
    return open_recording(folder, run_id, {})


def hostile_order(folder: Path) -> Recording:
    """A doubled order with hostile texts also in headers, and in the names that models and tools choose."""
    headers = {"Retry-After": HOSTILE, "Location": HOSTILE}
    reply = FaultedReply(HOSTILE, HOSTILE * 2, upstream_headers=headers, observed_headers={"Location": "/"})
    names = {"episode": EPISODE, "message": "tools/call", "tool": HOSTILE, "model": HOSTILE, "error": HOSTILE}
    wrong = fault_met(kind="wrong_value", id=HOSTILE, detail=HOSTILE)
    gateway = request(3.3, f"/mcp?{HOSTILE}", faulted_reply=reply, fault=wrong, forwarded=True, **names)
    tool = {"episode": EPISODE, "tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}, "error": HOSTILE}
    agent = called(HOSTILE, ok=False, link="shop", **tool)
    return doubled_order(folder, HOSTILE, more=([gateway], [agent]))


def _write(folder: Path, process: str, events: Sequence[Event], run_id: str = "run-b") -> None:
    writer = Writer(history_file(folder, run_id, process, 0))
    for event in events:
        writer.write(event)
    writer.close()


def false_success(folder: Path) -> Recording:
    """An agent that says done and reports a wrong value."""
    end = ended("done", [{"value": 5.0, "unit": None}], episode=EPISODE)
    events = episode(end, expect={"values": [{"number": 4}]}, name=EPISODE)
    start = replace(run_started(1), run_id="run-c", links=[SHOP])
    _write(folder, "agent", [start, *events, run_finished(), RunSealed({})], "run-c")
    return open_recording(folder, "run-c", {})


def failed_command(folder: Path) -> Recording:
    """A command without an oracle whose replies were lost: it said why and ended with exit code 1."""
    gateway: list[Event] = [
        request(
            place, "/price", method="GET", call=place, episode=EPISODE, complete=(True, False),
            forwarded=True, fault=fault_met(kind="lose_reply", id="lose_reply", shows={"lost": True}),
        )
        for place in (1, 2)
    ]  # fmt: skip
    start = replace(run_started(1), run_id="run-d", links=[SHOP])
    text = "failed: no response"
    end = ended(ended_by="text", response=text)
    end = replace(end, error_type="ExitCode", error=f"it ended with exit code 1: {text}")
    agent: list[Event] = [start, started(None, EPISODE, "python agent.py"), replace(end, episode=EPISODE)]
    agent += [healed(episode=EPISODE), run_finished()]
    _write(folder, "gateway", gateway, "run-d")
    record = Tail(history_file(folder, "run-d", "gateway", 0))
    record.read()
    _write(folder, "agent", [*agent, RunSealed({record.name: record.sealed()})], "run-d")
    return open_recording(folder, "run-d", {})


def killed_order(folder: Path) -> Recording:
    """An agent that is killed before the reply to its order, and orders again."""
    order = {"episode": EPISODE, "status": 201, "write": True, "forwarded": True}
    crash = fault_met(kind="kill_subject", id="crash", evidence={"upstream_status": 201})
    gateway = [
        request(3.1, complete=(True, False), fault=crash, **order),
        request(4.2, call=2, **order),
    ]
    _write(folder, "gateway", gateway, "run-e")
    record = Tail(history_file(folder, "run-e", "gateway", 0))
    record.read()
    start = replace(run_started(1), run_id="run-e", links=[SHOP])
    killed = SubjectKilled(103.5, EPISODE, 1, 1, "shop", "crash", "before_reply", "kill", True, 12.0)
    events = episode(killed, ended(ended_by="text", response="Ordered.", episode=EPISODE), name=EPISODE)
    _write(
        folder,
        "agent",
        [start, *events, run_finished(), RunSealed({record.name: record.sealed()})],
        "run-e",
    )
    return open_recording(folder, "run-e", {})
