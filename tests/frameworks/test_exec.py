"""Every framework example by ``wirefault exec`` alone: no file, no variable of ours, nothing changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.findings.environments import EXAMPLES, InstalledAgent
from bench.findings.trials import PROMPT
from bench.findings.upstreams import Shop
from tests.commands import wirefault
from tests.frameworks.exec_runs import ATTEMPT_S, SHOP_PORT, installed, shop_on_its_port, skip_unless_required
from wirefault.history.events import AttemptEnded, Event, Exchange
from wirefault.history.reader import read_run

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/agent.*"))
LOST = json.dumps({"faults": [{"fault": "lose_reply", "links": "tools"}]})


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    skip_unless_required()  # before it needs a port that others may use
    with shop_on_its_port(tmp_path) as shop:
        yield shop


def exec_run(agent: InstalledAgent, folder: Path, prompt: str, *words: str) -> tuple[int, list[Event]]:
    """The exit code, and the history, of a command as a person types it."""
    arguments = ["exec", "--scripted", "--offline", "--out", str(folder), "--toxiproxy", "embedded"]
    arguments += [
        "--seed",
        "1",
        "--attempt-time",
        str(ATTEMPT_S),
        "--json",
        str(folder / "summary.json"),
        *words,
        "--no-charts",
    ]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"PATH": agent.path, "OPENAI_API_KEY": "none-needed", "MPLBACKEND": "Agg"}
    environ["PLAYBOOKS"] = str(EXAMPLES / "playbooks.yaml")
    done = wirefault(folder, environ, *arguments, "--", *agent.command, prompt)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return done.returncode, list(read_run(folder / "logs", summary["run_id"]))


def exchanges(events: list[Event], link: str) -> list[Exchange]:
    return [event for event in events if isinstance(event, Exchange) and event.link == link]


def answer_in(events: list[Event]) -> str:
    [ended] = [event for event in events if isinstance(event, AttemptEnded)]
    return ended.response


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mcp_client"])
def test_lost_order_reply(name: str, shop: Shop, tmp_path: Path) -> None:
    _, events = exec_run(installed(name), tmp_path, PROMPT, "--faults", LOST)
    orders = exchanges(events, f"port_{SHOP_PORT}")
    assert orders and all(each.forwarded and each.status is None for each in orders)
    assert [fault.kind for each in orders for fault in each.faults if fault.injected] == ["lose_reply"] * len(
        orders
    )
    assert [(each.method, each.target) for each in orders] == shop.requests
    assert shop.orders() == len(orders)


def test_agent_without_faults_is_unchanged(shop: Shop, tmp_path: Path) -> None:
    code, events = exec_run(installed("openai_node"), tmp_path, PROMPT)
    assert code == 0 and "green tea" in answer_in(events)
    assert shop.orders() == 1
