"""Faults around a server's question to the client (stateless MCP), with the real SDK on both sides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.lab import Lab, gateway
from tests.mcp.environments import command
from tests.mcp.http_server import sdk_server
from tests.support import PATIENCE_S
from wirefault.wiring.links import Link, Links

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with sdk_server("asking_server.py") as server:
        links = Links([Link("shop", upstream=server, dialect="mcp")])
        with gateway(tmp_path_factory.mktemp("lab"), links=links) as lab:
            yield lab


def ordered(lab: Lab, *faults: dict[str, Any], limit_s: float = 2.0) -> dict[str, Any]:
    """The client's view of one order under these faults, and the number of orders."""
    lab.begin(faults={"faults": [{"links": "shop", "only": {"tool": "order"}, **fault} for fault in faults]})
    words = [*command("python_2.txt", "asked_python_2.py"), lab.url("shop", "/mcp"), str(limit_s)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    lab.settle()
    return json.loads(done.stdout)


def injected(lab: Lab) -> list[tuple[bool, str | None]]:
    return [(fault.injected, fault.why_not) for each in lab.exchanges() for fault in each.faults]


def test_faults_around_elicitation(lab: Lab) -> None:
    assert ordered(lab) == {"saw": "ordered tea: True", "orders": 1}
    lost = ordered(lab, {"fault": "lost_interim_result"})
    assert lost == {
        "saw": "error -32000",
        "orders": 1,
    }  # the client gives up, and the question has no answer
    assert injected(lab) == [(True, None)]
    twice = ordered(lab, {"fault": "retried_original"})
    assert twice == {"saw": "ordered tea: True", "orders": 3}
    assert injected(lab) == [(False, "nothing_to_change"), (True, None)]
