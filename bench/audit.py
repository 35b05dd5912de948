"""Audit each framework example by one command, and compare the result with the shop's own record.

``python -m bench.audit [AGENT ...]`` prints a row per agent: runs, seconds, findings, and whether the writes
that the gateway counted are those that the shop carried out. It needs the environments of
``bench.findings.environments``, and port 9000.
``python -m bench.audit --cost`` measures the time of one audit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.audit_cost import measure, print_cost
from bench.findings.environments import EXAMPLES, agents
from bench.findings.trials import PROMPT
from bench.findings.upstreams import shop_at
from wirefault.audit.answers import read_run
from wirefault.history.reader import read_history
from wirefault.wiring.write_requests import Corrections

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


def executed_writes(folder: Path) -> int:
    """Return how many orders the gateway saw executed in all runs of that folder."""
    [runs] = folder.rglob("runs")
    logs, count = runs.parent, 0
    for run in sorted(path.name for path in runs.iterdir()):
        view = read_run(run, read_history(logs, run).events(), Corrections())
        for request in view.trace.requests:
            exchange = request.exchange
            if exchange and exchange.method == "POST" and exchange.target == "/orders":
                count += request.executed == "yes"
    return count


def main(names: list[str]) -> None:
    if names == ["--cost"]:
        print_cost(measure())
        return
    for agent in agents():
        if names and agent.name not in names:
            continue
        with tempfile.TemporaryDirectory() as place, shop_at(Path(place) / "shop.db", _PORT) as shop:
            folder = Path(place) / "out"
            folder.mkdir()
            result, printed, seconds = audit([*agent.command, PROMPT], agent.path, folder)
            orders = sum(request == ("POST", "/orders") for request in shop.requests)
            answers = result.get("answers", [])
            count = {
                status: sum(each["status"] == status for each in answers)
                for status in ("finding", "fine", "unknown")
            }
            counted = executed_writes(folder) if result.get("runs") else 0
            print(
                f"{agent.name}: {result.get('runs', 0)} runs, {seconds:.0f} s, {count},"
                f" orders: shop {orders}, gateway {counted}",
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
