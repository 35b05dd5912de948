"""``wirefault audit`` of an agent that starts its MCP server itself, over a pipe."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.audit.serving import model_and_shop
from tests.commands import wirefault
from tests.lab.demos import environ_in

pytestmark = pytest.mark.slow

AGENT = """
import json, os, subprocess, sys, urllib.request

for url in sys.argv[2:]:
    urllib.request.urlopen(url).read()
HANDED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
own = {name: os.environ[name] for name in HANDED if name in os.environ}


def start():
    words = [sys.argv[1], "server.py"]
    return subprocess.Popen(words, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(method, **params):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


for _ in range(2):
    server = start()
    try:
        client = {"name": "c", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        ask("initialize", **hello)
        ask("tools/list")
        result = ask("tools/call", name="place_order", arguments={"item": "mug"})
        print("ordered:", result["result"]["content"][0]["text"])
        server.stdin.close()
        sys.exit(server.wait())
    except (ValueError, OSError, KeyError):
        server.kill()
print("it did not work")
"""
SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        info = {"name": "shop", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "place_order", "inputSchema": {"type": "object"}}]}
    else:
        with open("orders", "a") as file:
            file.write("order\\n")
        result = {"content": [{"type": "text", "text": "a mug"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def audit(folder: Path, program: str, *options: str, url: str = "") -> tuple[dict[str, Any], str]:
    (folder / "agent.py").write_text(AGENT)
    (folder / "server.py").write_text(SERVER)
    command = ["--", sys.executable, "agent.py", program, *filter(None, [url])]
    environ = environ_in(folder)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    ended = wirefault(folder, environ, "audit", "--json", "audit.json", *options, *command)
    return json.loads((folder / "audit.json").read_text()), ended.stdout + ended.stderr


@pytest.mark.usefixtures("namespaces")
def test_server_on_path_is_faulted(tmp_path: Path) -> None:
    result, printed = audit(tmp_path, "python", "--ask", "lost_reply", "--ask", "mcp_server_dies")
    assert "calls: server (place_order writes)" in printed
    by_question = {each["question"]: each for each in result["answers"]}
    assert by_question["lost_reply"]["finding"] == "write_repeated", printed
    assert by_question["mcp_server_dies"]["status"] != "unknown", printed
    orders = len((tmp_path / "orders").read_text().splitlines())
    assert orders >= 2 + 2 * len(by_question["lost_reply"]["runs"])


@pytest.mark.parametrize("tap", ["auto", "proxy"])
def test_server_past_lab_is_named(tmp_path: Path, tap: str) -> None:
    program = sys.executable if tap == "auto" else "python"
    result, printed = audit(tmp_path, program, "--tap", tap)
    assert f"MCP server over a pipe ({Path(program).name} server.py): wirefault mcp --config FILE" in printed
    assert not result["answers"]


def test_server_past_lab_is_not_counted_as_none(tmp_path: Path) -> None:
    ask = ["--ask", "read_5xx", "--ask", "mcp_server_dies"]
    with model_and_shop() as servers:
        result, printed = audit(tmp_path, sys.executable, *ask, url=f"{servers.shop}/price")
    reasons = [each for each in result["not_asked"] if "MCP" in each]
    assert len(reasons) == 1 and reasons[0].startswith("MCP server over a pipe"), printed
