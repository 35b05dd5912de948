"""Audit each framework example by one command, and compare the result with the shop's own record.

``python -m bench.audit [AGENT ...]`` prints a row per agent: runs, seconds, findings, and whether the writes
that the gateway counted are those that the shop carried out. It needs the environments of
``bench.findings.environments``, port 9000 for the shop, and port 3001 for the MCP server of ``mcp_client``.
``python -m bench.audit --cost`` measures the time of one audit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.audit_cost import measure, print_cost
from bench.findings.environments import EXAMPLES, InstalledAgent, agents
from bench.findings.trials import PROMPT
from bench.findings.upstreams import shop_at
from tests.frameworks.mcp_servers import everything
from tests.frameworks.test_mcp_client import PROMPT as MCP_PROMPT
from wirefault.history.reader import read_history
from wirefault.judging.requests import Request
from wirefault.judging.trace import traces

_PORT = 9000
_BOUND_S = 900


def audit(command: list[str], path: str, folder: Path) -> tuple[dict[str, Any], str, float]:
    """Audit the command in that folder; return the result, what was printed, and the seconds."""
    environ = {**os.environ, "PATH": path, "PLAYBOOKS": str(EXAMPLES / "playbooks.yaml")}
    words = [sys.executable, "-m", "wirefault", "audit", "--scripted", "--json", str(folder / "audit.json")]
    began = time.monotonic()
    done = subprocess.run(
        [*words, f"--out={folder}", "--", *command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=_BOUND_S,
    )
    seconds = time.monotonic() - began
    file = folder / "audit.json"
    return json.loads(file.read_text()) if file.exists() else {}, done.stdout + done.stderr, seconds


def forwarded_calls(folder: Path, is_call: Callable[[Request], bool]) -> int:
    """Return how many such requests the gateway saw carried out in all runs of that folder."""
    [runs] = folder.rglob("runs")
    logs, count = runs.parent, 0
    for run in sorted(path.name for path in runs.iterdir()):
        for trace in traces(read_history(logs, run).events()):
            count += sum(request.executed == "yes" and is_call(request) for request in trace.requests)
    return count


def is_order(request: Request) -> bool:
    """Whether the request is an order at the shop."""
    exchange = request.exchange
    return exchange is not None and (exchange.method, exchange.target) == ("POST", "/orders")


def is_echo(request: Request) -> bool:
    """Whether the request calls the tool ``echo`` of the MCP server."""
    return request.exchange is not None and request.exchange.tool == "echo"


@contextmanager
def upstream(agent: InstalledAgent, folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    """Serve the upstream of that agent; yield its prompt, and how many calls the upstream recorded."""
    if agent.name == "mcp_client":
        with everything(agent, folder) as server:
            yield MCP_PROMPT, lambda: server.calls.count("echo")
    else:
        with shop_at(folder / "shop.db", _PORT) as shop:
            yield PROMPT, lambda: shop.requests.count(("POST", "/orders"))


def main(names: list[str]) -> None:
    if names == ["--cost"]:
        print_cost(measure())
        return
    for agent in agents():
        if names and agent.name not in names:
            continue
        with tempfile.TemporaryDirectory() as place, upstream(agent, Path(place)) as (prompt, recorded):
            folder = Path(place) / "out"
            folder.mkdir()
            result, printed, seconds = audit([*agent.command, prompt], agent.path, folder)
            answers = result.get("answers", [])
            count = {
                status: sum(each["status"] == status for each in answers)
                for status in ("finding", "fine", "unknown")
            }
            is_call = is_echo if agent.name == "mcp_client" else is_order
            counted = forwarded_calls(folder, is_call) if result.get("runs") else 0
            print(
                f"{agent.name}: {result.get('runs', 0)} runs, {seconds:.0f} s, {count},"
                f" calls: upstream {recorded()}, gateway {counted}",
                flush=True,
            )
            for each in answers:
                if each["status"] != "fine":
                    text = each["finding_text"] or each["why"]
                    print(f"  {each['severity'] or each['status']:<8} {each['text']}: {text}")
            if not answers:
                print(printed[-2000:])


if __name__ == "__main__":
    main(sys.argv[1:])
