"""The MCP SDKs under each fault on lines, by ``wirefault mcp``: the table of docs/mcp.md."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.lab import Lab, gateway
from tests.mcp.environments import command
from tests.mcp.running_client import RunningClient, play
from tests.mcp.shim_lab import SERVER
from tests.support import ROOT, replace, until
from wirefault.history.events import Exchange
from wirefault.wiring.links import STDIO, Link, Links

pytestmark = pytest.mark.slow

CLIENTS = {
    "Python 1.30": ("python_1.txt", "stdio_python_1.py", ()),
    "Python 2.3": ("python_2.txt", "stdio_python_2.py", ()),
    "TypeScript 1.32": ("package.json", "stdio_typescript.mjs", ("1",)),
    "TypeScript 2.4": ("package.json", "stdio_typescript.mjs", ("2",)),
}
LIMIT_S = 4.0
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
PAGE = Path("docs/mcp.md")


LINKS = Links(Link(f"files{n}", STDIO, "mcp", (f"FILES{n}_MCP",)) for n in range(len(CLIENTS)))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A link for each client."""
    with gateway(tmp_path_factory.mktemp("sdks"), links=LINKS) as lab:
        # no Toxiproxy here: the link's proxy is its gateway
        topology = replace(lab.topology, proxies=lab.topology.gateways)
        topology.dump(lab.folder / "lab.json")
        yield lab


@pytest.fixture(scope="module")
def clients() -> Iterator[Sequence[RunningClient]]:
    starts = [[*command(needs, program), *first] for needs, program, first in CLIENTS.values()]
    running = [RunningClient(start) for start in starts]
    yield running
    for client in running:
        client.end()


def seen(lab: Lab, clients: Sequence[RunningClient], case: str) -> dict[str, str]:
    """Return each client's results of two calls, run side by side; the first call meets the fault."""
    fault, parameters = CASES[case]
    # an entry for each link: the calls of one client are counted by themselves
    entries = [
        {"id": link, "fault": fault, "with": parameters, "when": {"nth": 1, "of": "try"}, "links": link}
        for link in LINKS.names
    ]
    lab.begin(faults=json.dumps({"faults": entries}))
    shim = [sys.executable, "-P", str(ROOT / "wirefault" / "lab" / "program.py"), "wirefault", "mcp"]
    words = [*shim, "--lab", str(lab.folder / "lab.json")]
    requests = [
        {"limit_s": LIMIT_S, "words": [*words, "--link", link, "--", *SERVER]} for link in LINKS.names
    ]
    results = play(clients, requests)
    lab.settle()
    for link, lines in zip(LINKS.names, results, strict=True):
        own = until(lambda link=link: len(of_link(lab, link)) >= 2 and of_link(lab, link), f"two on {link}")
        faults = [fault for exchange in own for fault in exchange.faults]
        assert [fault.injected for fault in faults] == [True], (case, link, faults, lines)
    return {client: " / ".join(map(in_words, lines)) for client, lines in zip(CLIENTS, results, strict=True)}


def of_link(lab: Lab, link: str) -> list[Exchange]:
    return [exchange for exchange in lab.recorded() if exchange.link == link]


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


def test_page_matches_client_results(lab: Lab, clients: Sequence[RunningClient]):
    rows = {case: seen(lab, clients, case) for case in CASES}
    made = table(rows)
    if os.environ.get("FAULTS_SEEN") == "write":
        text, heading = PAGE.read_text(encoding="utf-8"), "### How the SDKs react"
        place = text.index("| fault |", text.index(heading))
        before, rest = text[:place], text[place:]
        after = rest[rest.index("\n\n") :]
        PAGE.write_text(before + made + after, encoding="utf-8")
    assert made in PAGE.read_text(encoding="utf-8")
