"""Function tools of eight frameworks, unchanged: each is broken by each fault, and the ledger is right."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench.findings.environments import InstalledAgent
from tests.frameworks.exec_runs import installed
from tests.gateway.lab import gateway
from wirefault.core.lab_folder import LIBRARY
from wirefault.subjects.functions.connections import VARIABLE
from wirefault.wiring.links import PYTHON, Link, Links

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("function_tools.py")
START_S = 180
LINKS = Links([Link("functions", PYTHON)])
FAULTS = {
    "": 1,
    "lose_reply": 1,
    "lose_request": 0,
    "duplicate_request": 2,
    "unavailable": 0,
    "delay": 1,
    "hang": 1,
    "wrong_value": 1,
    "empty": 1,
    "schema_drift": 1,
    "changed_arguments": 1,
    "truncate": 1,
    "reset": 1,
}
"""How often the function runs under each fault."""
PARAMETERS = {"hang": {"limit": 0.2}, "delay": {"ms": 1}}
DRIVERS = {
    "langchain": "langgraph",
    "langchain_async": "langgraph",
    "langchain_class": "langgraph",
    "openai_agents": "openai_agents",
    "pydantic_ai": "pydantic_ai",
    "crewai": "crewai",
    "llama_index": "llama_index",
    "llama_index_async": "llama_index",
    "autogen": "autogen",
    "smolagents": "smolagents",
    "strands": "strands",
}
"""The example in whose environment each driver of ``function_tools.py`` runs."""


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_fault_reaches_the_function_as_recorded(driver: str, tmp_path: Path) -> None:
    agent = installed(DRIVERS[driver])
    entries = [
        {"fault": fault, "links": "functions", "when": {"nth": at}, "with": PARAMETERS.get(fault, {})}
        for at, fault in enumerate(FAULTS, 1)
        if fault
    ]
    with gateway(tmp_path, links=LINKS, intercepts=False) as lab:
        lab.begin(faults={"faults": entries})
        result = _driven(agent, driver, len(FAULTS), str(lab.address("functions")))
        exchanges = lab.exchanges(len(FAULTS))
    executions = [_executions(driver, result["orders"], number) for number in range(len(FAULTS))]
    assert dict(zip(FAULTS, executions, strict=True)) == FAULTS
    injected = [[hit.kind for hit in exchange.faults if hit.injected] for exchange in exchanges]
    assert injected == [[fault] if fault else [] for fault in FAULTS]
    assert len(result["orders"]) == sum(FAULTS.values())


@pytest.mark.parametrize(
    ("driver", "name"), [("langgraph_interrupt", "langgraph"), ("pydantic_ai_retry", "pydantic_ai")]
)
def test_control_flow_is_the_same_inside_a_lab(driver: str, name: str, tmp_path: Path) -> None:
    agent = installed(name)
    with gateway(tmp_path, links=LINKS, intercepts=False) as lab:
        lab.begin()
        inside = _driven(agent, driver, 2, str(lab.address("functions")))
        assert len(lab.exchanges(2)) >= 2
        assert not any(exchange.unavailable for exchange in lab.exchanges(2))
    assert inside == _driven(agent, driver, 2, "")


def _driven(agent: InstalledAgent, driver: str, count: int, address: str) -> dict[str, list[str]]:
    place = f"{address} {address}".strip()
    startup = str(LIBRARY / "subjects" / "functions" / "startup")
    finished = subprocess.run(
        ["python", str(SCRIPT), driver, str(count)],
        env={**os.environ, "PATH": agent.path, "PYTHONPATH": startup, VARIABLE: place},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=True,
    )
    assert "wirefault:" not in finished.stderr
    result: dict[str, list[str]] = json.loads(finished.stdout.splitlines()[-1])
    return result


def _executions(driver: str, orders: list[str], number: int) -> int:
    """How often the function ran for that call; its argument says which, unless a fault changed it."""
    changed = [order for order in orders if order not in {f"item {each}" for each in range(len(FAULTS))}]
    own = orders.count(f"item {number}")
    return own or (len(changed) if list(FAULTS)[number] == "changed_arguments" else 0)
