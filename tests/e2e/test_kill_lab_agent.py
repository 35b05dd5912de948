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
  faults: {{faults: [{{fault: kill_subject, links: model, with: {{at: before_request}}, when: {{nth: 2}}}}]}}
hypothesis: [no duplicate]
"""


@pytest.mark.parametrize(("durability", "outcome"), [("exit", "duplicate"), ("sync", "success")])
def test_durability_decides_whether_write_is_repeated(tmp_path: Path, durability: str, outcome: str) -> None:
    (tmp_path / "x.yaml").write_text(EXPERIMENT.format(durability=durability))
    words = ("run", "x.yaml", "--toxiproxy", "embedded", "--json")
    done = commands.wirefault(tmp_path, environ_in(tmp_path), *words)
    assert done.returncode == (1 if outcome == "duplicate" else 0), done.stderr
    logs = tmp_path / ".wirefault" / "logs"
    saved = load_saved(logs, json.loads(done.stdout)["experiment"], {"LOGS_DIR": str(logs)})
    events = list(saved.history_of(saved.plan.arms[1]).events)
    assert summarise(events).outcomes == {outcome: 1}
    [killed] = [event for event in events if isinstance(event, SubjectKilled)]
    [resumed] = [event for event in events if isinstance(event, SubjectResumed)]
    assert (killed.link, killed.point, killed.dead) == ("model", "before_request", True)
    assert resumed.command == "the lab's agent, in a new process"
    restored = [event.preserved for event in events if isinstance(event, RecoveryTried)]
    assert restored == ([] if durability == "exit" else ["1 model replies, 1 tool results"])
