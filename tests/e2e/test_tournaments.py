"""Tournaments that draw more rounds until they can rank their arms, and that survive a kill."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_experiments import start_wirefault, wirefault
from tests.examples.serving import shop
from tests.experiments.test_tournament_files import ORDERED, WIRING, written
from tests.support import RUN_PATIENCE_S

pytestmark = pytest.mark.slow

# the first reply of each order of honey, so each second episode
LOST = {
    "fault": "lose_reply",
    "links": "shop",
    "only": {"json": {"item": "honey"}},
    "when": {"first": 1, "of": "try"},
}
# functions, since a process for each of the many episodes would be slow
AGENT = """
import json, os, urllib.request, uuid

def order(prompt, headers):
    body = json.dumps({"item": prompt, "count": 2}).encode()
    for _ in range(3):
        request = urllib.request.Request(os.environ["SHOP_URL"] + "/orders", body, headers)
        try:
            urllib.request.urlopen(request, timeout=20).read()
            return "The order was placed."
        except OSError:
            continue
    return "The order failed."

def retry(prompt):
    return order(prompt, {"Content-Type": "application/json"})

def keyed(prompt):
    return order(prompt, {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex})
"""
ARMS = {name: {"subject": {"python": f"orders:{name}"}} for name in ("retry", "keyed")}
OPTIONS = ("--toxiproxy", "embedded", "--json")


def tournament_file(folder: Path, url: str) -> str:
    links = {"shop": {**WIRING["links"]["shop"], "upstream": url}}
    changed = {
        "wiring": {**WIRING, "links": links},
        "method": {"faults": {"faults": [LOST]}},
        "arms": ARMS,
        "prompts": [{"id": item, "prompt": item, "expect": ORDERED} for item in ("teapot", "honey")],
        "repeats": None,
        "until_decided": True,
        "confidence": 0.8,
        "limits": {"episodes": 60},
    }
    (folder / "orders.py").write_text(AGENT, encoding="utf-8")
    return written(folder, **changed).name


def counts(arm: dict[str, Any]) -> tuple[int, ...]:
    """Episodes, successes, and orders without effect, with one and with more."""
    kinds = ("success_rate", "no_effect", "one_effect", "more_effects")
    return (arm["success_rate"]["n"], *(round(arm[kind]["estimate"] * arm[kind]["n"]) for kind in kinds))


def test_killed_tournament_draws_rounds_until_arms_differ(tmp_path: Path) -> None:
    """Killed in the second round, when the first arm has episodes that the second has not, and resumed."""
    logs = tmp_path / ".wirefault" / "logs"
    with shop(tmp_path / "shop.db") as record:
        file = tournament_file(tmp_path, record.url)
        with start_wirefault(tmp_path, "run", file, *OPTIONS) as process:
            ends = time.monotonic() + RUN_PATIENCE_S
            while not any(logs.glob("runs/*.1-2-method.2/gateway-0.jsonl")) and time.monotonic() < ends:
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            before = process.output()
        [plan] = logs.glob("experiments/*.1/plan.json")
        name = plan.parent.name.removesuffix(".1")
        done = wirefault(tmp_path, "run", "--resume", name, *OPTIONS)
    assert done.returncode == 0, done.stderr
    rounds = [line for line in (before + done.stderr).splitlines() if " episodes, method: " in line]
    assert [line.split()[0] for line in rounds] == ["8", "12", "18"] and "cannot be told apart" in rounds[0]
    document = json.loads(done.stdout)
    [table] = document["tables"]
    assert document["tournament"] == name and document["decided"]
    assert table["advice"].startswith("Use keyed: ") and table["schedules"]["different"] == []
    # as without a kill: every second order loses its reply, and is repeated once
    assert {arm["arm"]: counts(arm) for arm in table["arms"]} == {
        "retry": (18, 9, 0, 9, 9),
        "keyed": (18, 18, 0, 18, 0),
    }
