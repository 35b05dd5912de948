"""Outages inside an attempt that count: calls of a link, and turns of the user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from tests.examples.running import run_wiring
from tests.upstream import Upstream, requests_of
from wirefault.history.events import AttemptEnded, ToxicsChanged, TurnStarted
from wirefault.history.reader import read_run

PROMPT = sample("temperature in Paris")
ASKING = """
import os, urllib.request

def ask(prompt):
    try:
        with urllib.request.urlopen(os.environ["SHOP_URL"], timeout=20) as reply:
            return str(reply.status)
    except OSError as error:
        return str(getattr(error, "code", "refused"))
"""


@pytest.mark.parametrize("which", ["shared", "real_lab"])
def test_call_triggered_toxic_faults_only_its_link(request: pytest.FixtureRequest, which: str) -> None:
    shared: SharedLab = request.getfixturevalue(which)
    slow = {"toxic": "latency", "links": "model", "with": {"latency": 300}}
    slow["during"] = {"start": "2 calls", "duration": "1 call"}  # its last call is the answer
    lab_run = shared.run(PROMPT, faults={"toxics": [slow]})
    assert lab_run.outcomes == ["success"]
    [episode] = lab_run.summary.episodes
    [fault] = episode.faults
    assert (fault.stage, [(tried.call, tried.shows) for tried in fault.tries]) == ("observed", [(2, True)])
    assert lab_run.summary.reproducible, lab_run.summary.not_reproducible_because
    assert [change.action for change in lab_run.of(ToxicsChanged)][:2] == ["armed", "started"]


@pytest.fixture
def shop() -> Iterator[Upstream]:
    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Upstream(serve) as upstream:
        yield upstream


def test_each_turn_meets_its_own_faults(tmp_path: Path, shop: Upstream) -> None:
    (tmp_path / "asking.py").write_text(ASKING, encoding="utf-8")
    prompts = [{"id": "talk", "turns": ["One", "Two", "Three", "Four"]}, {"id": "word", "prompt": "One"}]
    (tmp_path / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    wired = {"links": {"shop": {"upstream": shop.address.url}}, "subject": {"python": "asking:ask"}}
    wiring = tmp_path / "wirefault.yaml"
    wiring.write_text(json.dumps({**wired, "prompts": "prompts.json"}), encoding="utf-8")
    faults = {
        "faults": [{"fault": "unavailable", "links": "shop", "when": {"turn": 2}}],
        "toxics": [
            {"toxic": "down", "links": "shop", "when": {"turn": 3}},
            {"toxic": "down", "id": "never", "links": "shop", "when": {"turn": 9}},
        ],
    }
    summary = run_wiring(
        tmp_path, wiring, "--toxic-prob", "0", "--error-prob", "0", "--faults", json.dumps(faults)
    )
    events = list(read_run(tmp_path / "logs", summary["run_id"]))
    answers = [event.answers or [event.response] for event in events if isinstance(event, AttemptEnded)]
    assert answers == [["200", "503", "refused", "200"], ["200"]]
    assert [event.turn for event in events if isinstance(event, TurnStarted)] == [2, 3, 4]
    fates = {row["entry"]: (row["drawn"], row["armed"]) for row in summary["faults"]}
    assert (fates["down"], fates["never"]) == ((2, 1), (2, 0))
