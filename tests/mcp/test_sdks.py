"""The MCP SDKs under each fault, over HTTP through the gateway: the table of docs/mcp.md."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.catalogue.clients.seen import Seen, dumped, fault_of, row_of
from tests.gateway.lab import Lab, gateway
from tests.mcp.environments import CLIENTS, command
from tests.mcp.http_server import sdk_server
from tests.mcp.running_client import RunningClient, play
from tests.mcp.step_results import StepResult, in_words
from tests.support import ROOT
from wirefault.faults.registry import REGISTRY
from wirefault.wiring.links import Link, Links

pytestmark = pytest.mark.slow

FILE = ROOT / "docs" / "mcp_seen.json"
SEEN = Seen(FILE, write=os.environ.get("FAULTS_SEEN") == "write")
LIMIT_S = 4.0  # for the faulted call; the others wait as long as needed
INITIALIZED = "notifications/initialized"
WEATHER, WALK, LIST = ("weather", "fine"), ("walk", "fine"), ("list", "list", "fine")


@dataclass(frozen=True)
class Case:
    """A fault, the clients' steps under it (the last shows whether they survive), and its message."""

    fault: str
    parameters: Mapping[str, Any]
    steps: Sequence[str] = WEATHER
    only: Mapping[str, Any] | None = None
    when: Mapping[str, Any] | None = None

    @property
    def row(self) -> str:
        hidden = ("ms", "steps", "bytes_per_second")
        return row_of(self.fault, {key: v for key, v in self.parameters.items() if key not in hidden})

    def dump(self, links: Sequence[str]) -> str:
        """The fault set with an entry for each client's link, since an entry counts over all its links."""
        only = {"tool": self.steps[0]} if self.only is None else self.only
        entry = {"fault": self.fault, "with": self.parameters, "only": only, "when": self.when or {}}
        return json.dumps({"faults": [{**entry, "id": link, "links": link} for link in links]})


def listing(fault: str, **parameters: Any) -> Case:
    return Case(fault, {"tool": "weather", **parameters}, LIST, {}, {"after": 1})


CASES = [
    Case("tool_error", {}),
    Case("tool_error", {"executed": True}),
    Case("rpc_error", {}),
    Case("rpc_error", {"code": -32020, "status": 400}),
    Case("unknown_session", {}),
    Case("unknown_session", {"status": 400}),
    Case("late_response", {"ms": 10_000}),
    Case("duplicate_response", {}),
    *(Case("wrong_id", {"kind": kind}) for kind in ("other", "text", "none")),
    *(Case("ended_stream", {"at": at}) for at in ("before_id", "after_id")),
    Case("ended_stream", {"at": "before_id", "ending": "reset"}),
    Case("server_death", {}, ("weather", "weather", "weather", "fine"), {}),
    Case("lost_notification", {"method": INITIALIZED}, WEATHER, {"method": INITIALIZED}),
    Case("lost_notification", {"method": "notifications/progress"}, WALK),
    Case("ignored_cancel", {}, ("cancel", "fine"), {}),
    Case("slow_progress", {"ms": 5000, "steps": 5}, WALK),
    *(listing("changed_tools", kind=kind) for kind in ("removed", "new_argument")),
    listing("changed_tools", kind="none"),
    listing("poisoned_description"),
    Case("split_line", {}),
    Case("garbage_line", {}),
    Case("hang", {}),
    Case("reset", {}),
    Case("lose_reply", {}),
    Case("truncate", {}),
    Case("malformed", {"kind": "cut_json"}),
    Case("malformed", {"kind": "html"}),
    Case("empty", {}),
    Case("status", {"status": 202, "body": ""}),
    Case("rate_limit", {}),
    Case("server_error", {}),
    Case("unavailable", {}),
    Case("duplicate_request", {}),
    # the walk gives the gateway the time to have seen the end of the reply before it
    Case("stale", {}, ("fine", "walk", "weather", "fine"), {"tool": "weather"}),
    Case("wrong_value", {}),
    Case("schema_drift", {"field": "celsius"}),
]


@pytest.fixture(scope="module")
def clients() -> Iterator[Sequence[RunningClient]]:
    """Each of the table's columns, in their order."""
    starts = [[*command(needs, program), *words] for needs, program, words in CLIENTS.values()]
    running = [RunningClient(start) for start in starts]
    yield running
    for client in running:
        client.end()


def results(
    clients: Sequence[RunningClient], urls: Sequence[str], steps: Sequence[str]
) -> list[list[StepResult]]:
    """Each client's result of these steps, each client at its own address."""
    return play(clients, [{"url": url, "limit_s": LIMIT_S, "steps": steps} for url in urls])


@pytest.fixture(scope="module")
def server(clients: object) -> Iterator[str]:
    """The address of a running server."""
    with sdk_server() as url:
        yield url


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Lab]:
    """A link for each client, all of them to the one server."""
    links = Links(Link(f"link{n}", upstream=server, dialect="mcp", planted=True) for n in range(len(CLIENTS)))
    with gateway(tmp_path_factory.mktemp("lab"), links=links) as lab:
        yield lab


@pytest.fixture(scope="module")
def good(clients: Sequence[RunningClient], server: str) -> Mapping[str, list[StepResult]]:
    """Each client's result of each step without a fault."""
    steps = ("fine", "weather", "walk", "list")
    answers = results(clients, [server] * len(CLIENTS), steps)
    return dict(zip(CLIENTS, answers, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_mcp_clients_see_faults(case: Case, lab: Lab, clients: Any, good: Any) -> None:
    links = lab.topology.links.names
    lab.begin(faults=case.dump(links))
    answers = results(clients, [lab.url(link, "/mcp") for link in links], case.steps)
    lab.settle()
    exchanges = lab.exchanges()
    for client, link, answer in zip(CLIENTS, links, answers, strict=True):
        own = [exchange for exchange in exchanges if exchange.link == link]
        faults = [fault for exchange in own for fault in exchange.faults]
        alone = {step["step"]: step for step in good[client]}
        words = in_words(answer, case.steps, [alone.get(step, alone["walk"]) for step in case.steps])
        if not any(fault.injected for fault in faults):
            words = f"not injected: {faults[0].why_not}" if faults else "no such message"
        tool_calls = Counter(exchange.tool for exchange in own)
        if tool_calls["weather"] > case.steps.count("weather"):
            words = f"sent {tool_calls['weather']} times, then {words}"
        SEEN.note(case.row, client, words)


def test_table_has_every_mcp_fault() -> None:
    rows = Seen(FILE).read()
    asking = {"lost_interim_result", "retried_original"}  # no tool of this server asks: test_questions.py
    faults = {name for name, fault in REGISTRY.items() if fault.family == "mcp"}
    assert faults - asking <= set(map(fault_of, rows))
    assert set(rows) == {case.row for case in CASES}
    assert FILE.read_text(encoding="utf-8") == dumped(rows)
