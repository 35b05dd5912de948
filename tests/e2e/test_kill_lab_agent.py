"""The lab's own agent, killed between a write and the next step and resumed: its checkpoints decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import commands
from tests.lab.demos import environ_in
from wirefault.experiments.saved import load_saved
from wirefault.history.events import RecoveryTried, SubjectKilled, SubjectResumed
from wirefault.judging.summary import summarise

pytestmark = pytest.mark.slow

EXPERIMENT = """
title: The lab's agent killed
seed: 3
prompts:
  - id: mail
    prompt: Send Bob a message saying "The report is ready".
    expect: {{effects: [{{kind: message_sent, fields: {{to: Bob}}}}]}}
settings: {{recovery: "keys(by=none),checkpoint(durability={durability})"}}
method:
  faults:
    faults:
      - {{fault: delay, links: model, with: {{ms: {delay_ms}}}, when: {{nth: 2}}}}
      - {{fault: kill_subject, links: model, with: {{at: {point}}}, when: {{nth: 2}}}}
hypothesis: [no duplicate]
"""


def killed_and_resumed(folder: Path, durability: str, point: str, delay_ms: int) -> tuple[str, list[str]]:
    """Return the outcome of the only episode, and what each resumption restored."""
    (folder / "x.yaml").write_text(EXPERIMENT.format(durability=durability, point=point, delay_ms=delay_ms))
    words = ("run", "x.yaml", "--toxiproxy", "embedded", "--json")
    done = commands.wirefault(folder, environ_in(folder), *words)
    logs = folder / ".wirefault" / "logs"
    saved = load_saved(logs, json.loads(done.stdout)["experiment"], {"LOGS_DIR": str(logs)})
    events = list(saved.history_of(saved.plan.arms[1]).events)
    [outcome] = summarise(events).outcomes
    assert done.returncode == (1 if outcome == "duplicate" else 0), done.stderr
    [killed] = [event for event in events if isinstance(event, SubjectKilled)]
    [resumed] = [event for event in events if isinstance(event, SubjectResumed)]
    assert (killed.link, killed.point, killed.dead) == ("model", point, True)
    assert resumed.command == "the lab's agent, in a new process"
    return outcome, [event.preserved for event in events if isinstance(event, RecoveryTried)]


@pytest.mark.parametrize(
    ("durability", "point", "delay_ms", "expected"),
    [
        ("exit", "before_request", 0, ("duplicate", [])),
        ("sync", "before_request", 0, ("success", ["1 model replies, 1 tool results"])),
        # it stores a step while the next one runs, long enough here; tests/agent has the other case
        ("async", "before_reply", 2000, ("success", ["1 model replies, 1 tool results"])),
    ],
)
def test_durability_decides_whether_write_is_repeated(
    tmp_path: Path, durability: str, point: str, delay_ms: int, expected: tuple[str, list[str]]
) -> None:
    assert killed_and_resumed(tmp_path, durability, point, delay_ms) == expected
