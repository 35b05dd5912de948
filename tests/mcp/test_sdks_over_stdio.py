"""What the SDKs of MCP make of each fault on lines, by ``windtunnel mcp``: the table of docs/mcp-stdio.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.lab import Lab
from tests.gateway.stdio.lines_lab import faults, stdio_lab
from tests.mcp.environments import command
from tests.mcp.shim_lab import SERVER
from tests.support import ROOT, RUN_PATIENCE_S

pytestmark = pytest.mark.slow

CLIENTS = {
    "Python 1.30": ("python_1.txt", "stdio_python_1.py", ()),
    "Python 2.3": ("python_2.txt", "stdio_python_2.py", ()),
    "TypeScript 1.32": ("package.json", "stdio_typescript.mjs", ("1",)),
    "TypeScript 2.4": ("package.json", "stdio_typescript.mjs", ("2",)),
}
LIMIT_S = 3.0
CASES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "tool_error": ("tool_error", {}),
    "rpc_error": ("rpc_error", {}),
    "rate_limit": ("rate_limit", {}),
    "hang": ("hang", {}),
    "lose_reply": ("lose_reply", {}),
    "late_response": ("late_response", {"ms": 10_000}),
    "duplicate_response": ("duplicate_response", {}),
    "wrong_id (other)": ("wrong_id", {"kind": "other"}),
    "wrong_id (text)": ("wrong_id", {"kind": "text"}),
    "split_line (newline)": ("split_line", {"kind": "newline"}),
    "split_line (unfinished)": ("split_line", {"kind": "unfinished"}),
    "split_line (pause)": ("split_line", {"kind": "pause", "ms": 100}),
    "garbage_line (log)": ("garbage_line", {"kind": "log"}),
    "garbage_line (json)": ("garbage_line", {"kind": "json"}),
    "garbage_line (utf8)": ("garbage_line", {"kind": "utf8"}),
    "server_death": ("server_death", {"down": 0, "forgets": 0}),
    "reset": ("reset", {}),
    "truncate": ("truncate", {}),
}
PAGE = Path("docs/mcp-stdio.md")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with stdio_lab(tmp_path_factory.mktemp("sdks")) as lab:
        # no Toxiproxy here: the link's proxy is its gateway
        topology = replace(lab.topology, proxies=lab.topology.gateways)
        topology.dump(lab.folder / "lab.json")
        yield lab


def seen(lab: Lab, client: str, case: str) -> str:
    """What the client told of two calls, the first of which was struck."""
    fault, parameters = CASES[case]
    entry = {"fault": fault, "with": parameters, "when": {"nth": 1}}
    lab.begin(faults=faults(entry))
    needs, program, first = CLIENTS[client]
    shim = [sys.executable, "-P", str(ROOT / "windtunnel" / "lab" / "program.py"), "windtunnel", "mcp"]
    words = [*shim, "--lab", str(lab.folder / "lab.json"), "--link", "files", "--", *SERVER]
    run = subprocess.run(
        [*command(needs, program), *first, str(LIMIT_S), *words],
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=False,
    )
    lab.settle()
    met = [fault for exchange in lab.exchanges(2) for fault in exchange.faults]
    assert [fault.injected for fault in met] == [True], (case, met, run.stderr)
    told = [in_words(json.loads(line)) for line in run.stdout.splitlines()]
    return " / ".join(told)


def in_words(saw: Mapping[str, Any]) -> str:
    match saw:
        case {"text": '{"city": "Bern"}'}:
            return "good"
        case {"error": _}:
            return "tool error"
        case {"code": -32001 | 408} | {"exception": "SdkError REQUEST_TIMEOUT"}:
            return "its limit"
        case {"code": code}:
            return f"error {code}"
        case {"dies": name}:
            return f"dies ({name})"
        case {"exception": name}:
            return str(name)
    return "another answer"


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    head = ["fault", *CLIENTS]
    lines = [head, ["---"] * len(head)]
    lines += [[f"`{case}`", *(row[client] for client in CLIENTS)] for case, row in rows.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def test_the_page_says_what_each_client_made_of_each_fault(lab: Lab):
    rows = {case: {client: seen(lab, client, case) for client in CLIENTS} for case in CASES}
    made = table(rows)
    if os.environ.get("FAULTS_SEEN") == "write":
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("| fault |")
        after = rest[rest.index("\n\n") :]
        PAGE.write_text(before + made + after, encoding="utf-8")
    assert made in PAGE.read_text(encoding="utf-8")
