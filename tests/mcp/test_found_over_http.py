"""An MCP server that ``wirefault exec`` sees for the first time: MCP faults apply to it undeclared."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wirefault
from tests.e2e.test_exec import Ran, port_link
from tests.examples.serving import served
from tests.lab.demos import environ_in
from tests.mcp.environments import command
from tests.mcp.http_server import sdk_server
from wirefault.history.events import Exchange, RunStarted
from wirefault.history.reader import read_file
from wirefault.judging.summary import summarise
from wirefault.wiring.wiring import load_wiring

pytestmark = pytest.mark.slow

ONCE = {"first": 1, "of": "try"}
FAULTS = {
    "faults": [
        {"fault": "tool_error", "only": {"tool": "weather"}},
        {"fault": "unavailable", "links": "tools", "only": {"tool": "fine"}, "when": ONCE},
    ]
}
AGENT = """
import json, sys, urllib.error, urllib.request

def post(path, method, **params):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(message).encode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)

post("/mcp", "initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "c"})
for tool in ("weather", "fine", "fine"):
    print(tool, post("/mcp", "tools/call", name=tool, arguments={}))
print("rpc", post("/rpc", "weather", name="weather"))
"""


def plain(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Thirty lines of MCP at /mcp, and another service that speaks JSON-RPC but not MCP."""
    message = json.load(environ["wsgi.input"])
    result: dict[str, Any] = {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}}
    if environ["PATH_INFO"] == "/rpc":
        result = {"content": [], "done": message["method"]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "sunny"}]}
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()]


@pytest.fixture(params=["namespace", "proxy"])
def tap(request: pytest.FixtureRequest) -> str:
    if request.param == "namespace":
        request.getfixturevalue("namespaces")
    return str(request.param)


@pytest.fixture(scope="module")
def sdk_address() -> Iterator[str]:
    """The address of a running server of an SDK."""
    with sdk_server() as url:
        yield url


def exec_run(folder: Path, tap: str, *words: str) -> Ran:
    options = ["--tap", tap, "--toxiproxy", "embedded", "--no-charts", "--faults", json.dumps(FAULTS)]
    return Ran(folder, *options, "--record", str(folder / "found.yaml"), "--", *words)


def injected_kinds(exchanges: list[Exchange]) -> list[str]:
    return [fault.kind for exchange in exchanges for fault in exchange.faults if fault.injected]


def test_only_model_calls_meet_faults(tmp_path: Path, tap: str) -> None:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    with served(plain) as server:
        ran = exec_run(tmp_path, tap, sys.executable, str(tmp_path / "agent.py"), server.url)
    link = port_link(server)
    exchanges = ran.exchanges(link)
    assert [(each.dialect, each.tool) for each in exchanges] == [
        ("mcp", ""),
        ("mcp", "weather"),
        ("mcp", "fine"),
        ("mcp", "fine"),
        ("http", ""),
    ], ran.stderr
    assert injected_kinds(exchanges) == ["tool_error", "unavailable"]
    forwarded = [(each.method, each.target) for each in exchanges if each.forwarded]
    assert forwarded == server.requests
    assert "fine 503" in ran.stdout and '"isError": true' in ran.stdout and '"done": "weather"' in ran.stdout
    rows = {row.entry: (row.eligible, row.injected) for row in summarise(ran.events()).faults}
    assert rows == {"tool_error": (1, 1), "unavailable": (2, 1)}
    assert load_wiring(tmp_path / "found.yaml").links[link].dialect == "mcp"
    assert "(MCP)" in ran.stderr


def test_link_without_a_dialect_shows_its_messages_as_a_found_one_does(tmp_path: Path) -> None:
    """Otherwise a repeated read of a tool, sent by POST, is a harmful write."""
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    with served(plain) as server:
        wiring = {
            "links": {"notes": {"upstream": server.url, "env": "NOTES_URL"}},
            "subject": {"command": ["sh", "-c", f'{sys.executable} {tmp_path}/agent.py "$NOTES_URL"']},
        }
        (tmp_path / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
        faults = {"faults": [{"fault": "unavailable", "only": {"path": "/mcp"}, "when": ONCE}]}
        words = ("run", "--prompt", "hello", "--no-charts", "--faults", json.dumps(faults))
        done = wirefault(tmp_path, environ_in(tmp_path), *words)
    [history] = (tmp_path / ".wirefault" / "logs" / "runs").glob("*/gateway-0.jsonl")
    exchanges = [event for event in read_file(history) if isinstance(event, Exchange)]
    recorded = [(each.dialect, each.tool, len(each.faults)) for each in exchanges]
    assert recorded == [
        ("mcp", "", 0),
        ("mcp", "weather", 1),
        ("mcp", "fine", 0),
        ("mcp", "fine", 0),
        ("http", "", 0),
    ], done.stderr


def test_sdk_client_and_server_meet_faults(tmp_path: Path, tap: str, sdk_address: str) -> None:
    words = json.dumps({"url": sdk_address, "limit_s": 20, "steps": ["weather", "fine", "fine"]})
    client = command("python_2.txt", "python_2.py")
    ran = exec_run(tmp_path, tap, "sh", "-c", 'echo "$0" | "$@"', words, *client)
    steps = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"step"')]
    assert ["error" in steps[0], "code" in steps[1], steps[2].get("text")] == [
        True,
        True,
        "fine",
    ], ran.stderr
    [started] = [event for event in ran.events() if isinstance(event, RunStarted)]
    assert [link.dialect for link in started.wired] == ["mcp"]
    assert injected_kinds(ran.exchanges(started.wired.names[0])) == ["tool_error", "unavailable"]
