"""Tournaments that draw more rounds until they can rank their arms, and that survive a kill."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_experiments import start_wirefault, wirefault
from tests.examples.serving import Recorded, shop
from tests.experiments.test_tournament_files import ORDERED, WIRING, written
from tests.support import RUN_PATIENCE_S

pytestmark = pytest.mark.slow

# the first reply of each order of honey, so each second episode
LOST = {"fault": "lose_reply", "links": "shop", "only": {"json": {"item": "honey"}}, "when": {"first": 1}}
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


@pytest.fixture(scope="module")
def shop_record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with shop(tmp_path_factory.mktemp("shop") / "shop.db") as record:
        yield record


def tournament_file(folder: Path, record: Recorded, cap: int) -> str:
    links = {"shop": {**WIRING["links"]["shop"], "upstream": record.url}}
    changed = {
        "wiring": {**WIRING, "links": links},
        "method": {"faults": {"faults": [LOST]}},
        "arms": ARMS,
        "prompts": [{"id": item, "prompt": item, "expect": ORDERED} for item in ("teapot", "honey")],
        "repeats": None,
        "until_decided": True,
        "confidence": 0.8,
        "limits": {"episodes": cap},
    }
    (folder / "orders.py").write_text(AGENT, encoding="utf-8")
    return written(folder, **changed).name


def table_in(document: Any) -> dict[str, Any]:
    [table] = document["tables"]
    assert isinstance(table, dict)
    return table


def summary_of(table: dict[str, Any]) -> dict[str, Any]:
    """The table without the figures that are measured by the clock."""
    counted = ("arm", "outcomes", "success", "honest", "no_effect", "one_effect", "more_effects")
    arms = [{name: arm[name] for name in (*counted, "requests_per_call")} for arm in table["arms"]]
    return {**{name: table[name] for name in ("advice", "groups", "pairs", "schedules")}, "arms": arms}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, shop_record: Recorded) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = wirefault(folder, "run", tournament_file(folder, shop_record, 60), *OPTIONS)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    rounds = [line for line in done.stderr.splitlines() if " episodes, method: " in line]
    assert [line.split()[0] for line in rounds] == ["8", "12"] and "cannot be told apart" in rounds[0]
    return document


def test_rounds_are_added_until_arms_differ(undisturbed: dict[str, Any]) -> None:
    table = table_in(undisturbed)
    assert undisturbed["decided"] and table["advice"].startswith("Use keyed: ")
    assert [arm["success"]["n"] for arm in table["arms"]] == [12, 12]
    assert table["schedules"]["different"] == []


def test_cap_ends_undecided_tournament(tmp_path: Path, shop_record: Recorded) -> None:
    done = wirefault(tmp_path, "run", tournament_file(tmp_path, shop_record, 2), *OPTIONS)
    document = json.loads(done.stdout)
    table = table_in(document)
    assert not document["decided"] and [arm["success"]["n"] for arm in table["arms"]] == [2, 2]
    assert "cannot be told apart by success after 2 pairs" in table["advice"]


def test_killed_tournament_resumes_to_same_table(
    tmp_path: Path, shop_record: Recorded, undisturbed: dict[str, Any]
) -> None:
    file = tournament_file(tmp_path, shop_record, 60)
    logs = tmp_path / ".wirefault" / "logs"
    with start_wirefault(tmp_path, "run", file, *OPTIONS) as process:
        ends = time.monotonic() + RUN_PATIENCE_S
        # the first arm's second round has begun: it has episodes that the second arm has not
        while not any(logs.glob("runs/*.1-2-method.2/gateway-0.jsonl")) and time.monotonic() < ends:
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(RUN_PATIENCE_S)
    [plan] = logs.glob("experiments/*.1/plan.json")
    name = plan.parent.name.removesuffix(".1")
    done = wirefault(tmp_path, "run", "--resume", name, *OPTIONS)
    document = json.loads(done.stdout)
    assert document["tournament"] == name and document["decided"]
    assert summary_of(table_in(document)) == summary_of(table_in(undisturbed))
