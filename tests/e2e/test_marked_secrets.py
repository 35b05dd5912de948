"""Marked secrets in every place where an agent may have them: no file and no output has one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.commands import wirefault
from tests.examples.serving import served
from tests.lab.demos import environ_in
from tests.support import ROOT, latest_run
from wirefault.history.events import Exchange
from wirefault.history.reader import read_history

pytestmark = pytest.mark.slow
MCP_SERVER = ROOT / "tests" / "mcp" / "plain_server.py"


def mark(number: int) -> str:
    return f"mArk3d{number:02}xQ7zP0wL9sT4vB"


AGENT = """
import base64, json, os, sys, urllib.request
url, secrets = sys.argv[1], json.load(open(sys.argv[2]))
def ask(method, target, body=None, **headers):
    data = body.encode() if body is not None else None
    urllib.request.urlopen(urllib.request.Request(url + target, data, headers, method=method)).read()
for target in secrets["targets"]:
    ask("GET", target)
for kind, body in secrets["bodies"]:
    ask("POST", "/orders", body, **{"Content-Type": kind})
for name, value in secrets["headers"]:
    ask("GET", "/echo", None, **{name: value})
names = "MOVIES_FILE STATE_DB EFFECTS_DB LOGS_DIR LAB_ID PROMPTS_FILE PERSONA WIREFAULT_LAB"
print("of the lab:", [name for name in names.split() if name in os.environ])
print("settings:", {name: os.environ[name] for name in secrets["variables"]})
print("failed at", url + secrets["targets"][0], file=sys.stderr)
sys.stdout.write("no end of line: " + os.environ["GITHUB_TOKEN"])
sys.exit(3)
"""
VARIABLES = {
    "AWS_SECRET_ACCESS_KEY": mark(1),
    "GITHUB_TOKEN": mark(2),
    "DB_PASSWORD": mark(3) + "\"'&=%",
    "DATABASE_URL": f"postgres://me:{mark(4)}@127.0.0.1/db",
}
TARGETS = [
    f"/a?token={mark(5)}",
    f"/a?apikey={mark(6)}&b=1",
    f"/a?api_key={mark(7)}",
    f"/a?sig={mark(8)}",
    f"/a?X-Amz-Signature={mark(9)}",
    f"/a?b=2&pass%77ord={mark(10)}",
    f"/a?client%5Fsecret=%6D{mark(11)[1:]}",
    f"/bot123456:{mark(12)}/send",
    f"/hooks/{mark(13)}",
    f"/token/{mark(14)}/use",
    f"/files/%6D{mark(15)[1:]}",
]
BODIES = [
    ("application/x-www-form-urlencoded", f"user=me&password={mark(16)}&pass%70hrase={mark(17)}"),
    ("application/json", json.dumps({"item": "tea", "auth": {"accessToken": mark(18)}})),
    ("application/json", json.dumps({"text": json.dumps({"client_secret": mark(19), "n": 1})})),
]
HEADERS = [("Authorization", f"Bearer {mark(20)}"), ("X-Api-Key", mark(21))]
ARGUMENTS = ["--token", mark(22), f"--api-key={mark(23)}", "-H", f"X-Auth-Token: {mark(24)}"]
ALL = [mark(number).encode()[1:] for number in range(1, 25)]


def echo(environ, start):  # type: ignore[no-untyped-def]
    """Repeat the request in the reply, as servers do in their errors."""
    body = environ["wsgi.input"].read().decode()
    headers = {
        name: value for name, value in environ.items() if name in ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY")
    }
    reply = json.dumps({"at": environ["RAW_URI"], "body": body, "headers": headers}).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(reply)))])
    return [reply]


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_marked_secrets_are_in_no_file_and_output(
    tmp_path: Path, tap: str, request: pytest.FixtureRequest
) -> None:
    if tap == "namespace":
        request.getfixturevalue("namespaces")
    work, private, program = tmp_path / "work", tmp_path / "private", tmp_path / "agent.py"
    work.mkdir()
    program.write_text(AGENT, encoding="utf-8")
    file = tmp_path / "places.json"
    places = {"targets": TARGETS, "bodies": BODIES, "headers": HEADERS, "variables": list(VARIABLES)}
    file.write_text(json.dumps(places), encoding="utf-8")
    environ = environ_in(tmp_path) | VARIABLES | {"XDG_STATE_HOME": str(private)}
    with served(echo) as server:
        command = [sys.executable, str(program), server.url, str(file), *ARGUMENTS]
        faults = json.dumps({"faults": [{"fault": "delay", "with": {"ms": 1}}]})
        words = ["exec", "--seed", "7", "--tap", tap, "--faults", faults, "--record", "found.yaml"]
        done = wirefault(work, environ, *words, "--", *command)
        received = "".join(target for _, target in server.requests)
    assert all(text in received for text in (mark(5), mark(6), mark(12))), (
        done.stderr
    )  # unchanged on the wire
    files = [path for folder in (work, private) for path in folder.rglob("*") if path.is_file()]
    texts = {str(path): path.read_bytes() for path in files}
    texts |= {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    assert len(files) > 5
    assert {(name, secret) for name, text in texts.items() for secret in ALL if secret in text} == set()

    logs = work / ".wirefault" / "logs"
    events = read_history(logs, latest_run(logs)).events()
    exchanges = [event for event in events if isinstance(event, Exchange)]
    assert len(exchanges) == len(TARGETS) + len(BODIES) + len(HEADERS)
    assert len({exchange.target for exchange in exchanges}) == len(TARGETS) + 2
    assert "[secret]" in (work / "found.yaml").read_text(encoding="utf-8")
    assert "of the lab: []" in done.stdout
    assert "no end of line: [secret]" in done.stdout


def leaks(done: CompletedProcess[str], *folders: Path) -> set[tuple[str, bytes]]:
    """The files and outputs that have a marked secret."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    texts = {str(path): path.read_bytes() for path in files}
    texts |= {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    assert len(files) > 5, done.stderr
    return {(name, secret) for name, text in texts.items() for secret in ALL if secret in text}


@pytest.mark.parametrize("kind", ["experiment", "wiring"])
def test_marked_secrets_are_in_no_run_file(tmp_path: Path, kind: str) -> None:
    work, private, mine = tmp_path / "work", tmp_path / "private", tmp_path / "mine"
    work.mkdir()
    mine.mkdir()
    (mine / "agent.py").write_text(AGENT, encoding="utf-8")
    places = {"targets": TARGETS, "bodies": BODIES, "headers": HEADERS, "variables": list(VARIABLES)}
    (mine / "places.json").write_text(json.dumps(places), encoding="utf-8")
    environ = environ_in(tmp_path) | VARIABLES | {"XDG_STATE_HOME": str(private)}
    with served(echo) as server:
        words = ["agent.py", server.url, "places.json", *ARGUMENTS]
        subject = {"command": [sys.executable, *words], "prompt": "none", "show": True}
        (mine / "w.json").write_text(
            json.dumps({"intercept": {"tap": "proxy"}, "subject": subject, "prompts": "p.json"})
        )
        (mine / "p.json").write_text('[{"prompt": "Order tea"}]')
        experiment = {
            "title": "Order",
            "wiring": "w.json",
            "method": {"faults": {"faults": [{"fault": "delay", "with": {"ms": 1}}]}},
            "hypothesis": ["no crash"],
        }
        (mine / "exp.json").write_text(json.dumps(experiment))
        file = mine / ("exp.json" if kind == "experiment" else "w.json")
        calm = () if kind == "experiment" else ("--toxic-prob", "0", "--error-prob", "0")
        done = wirefault(work, environ, "run", str(file), "--seed", "7", *calm)
        received = "".join(target for _, target in server.requests)
    assert all(text in received for text in (mark(5), mark(6), mark(12))), done.stderr
    assert leaks(done, work, private) == set()
    again = wirefault(work, environ, "report", "latest")
    timeline = wirefault(work, environ, "show", "latest", "1", "--full")
    assert leaks(again, work) | leaks(timeline, work) == set()


def test_real_model_key_is_in_no_demo_file(tmp_path: Path) -> None:
    work, private = tmp_path / "work", tmp_path / "private"
    work.mkdir()
    keys = {"MODEL_API_KEY": mark(1), "GITHUB_TOKEN": mark(2)}
    environ = environ_in(tmp_path) | keys | {"XDG_STATE_HOME": str(private)}
    with served(refuse) as server:
        environ["MODEL_BASE_URL"] = f"{server.url}/v1"
        done = wirefault(work, environ, "demo", "--only", "1", "--seed", "7", "--no-charts")
        assert server.requests, done.stderr
    assert leaks(done, work, private) == set()


def refuse(environ, start):  # type: ignore[no-untyped-def]
    """Refuse the key and repeat it, as some servers do."""
    message = f"the key {environ.get('HTTP_AUTHORIZATION')} is unknown"
    reply = json.dumps({"error": {"message": message}}).encode()
    start("401 Unauthorized", [("Content-Type", "application/json"), ("Content-Length", str(len(reply)))])
    return [reply]


MCP_CLIENT = """
import json, os, subprocess, sys
words, pipe = json.loads(os.environ["FILES_MCP_JSON"]), subprocess.PIPE
server = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
def ask(number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\\n")
    server.stdin.flush()
    return server.stdout.readline()
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "c", "version": "1"})
calls = json.load(open(sys.argv[1]))
replies = [ask(place, "tools/call", **call) for place, call in enumerate(calls, 2)]
server.stdin.close()
server.wait()
print(*replies)
"""


def test_marked_secrets_of_mcp_over_stdio_are_in_no_file(tmp_path: Path) -> None:
    work, private, mine = tmp_path / "work", tmp_path / "private", tmp_path / "mine"
    work.mkdir()
    mine.mkdir()
    (mine / "client.py").write_text(MCP_CLIENT, encoding="utf-8")
    calls = [
        {"name": "env", "arguments": {"name": "GITHUB_TOKEN"}},
        {"name": "echo", "arguments": {"api_key": mark(5), "text": f"Authorization: Bearer {mark(6)}"}},
        {"name": "echo", "arguments": {"url": f"https://x.example/a?token={mark(7)}&b=1"}},
        {"name": "echo", "arguments": {"body": json.dumps({"password": mark(8)})}},
        {
            "name": "nope",
            "arguments": {"uri": f"https://x.example/hooks/{mark(9)}", "auth": {"accessToken": mark(10)}},
        },
    ]
    (mine / "calls.json").write_text(json.dumps(calls))
    (mine / "p.json").write_text('[{"prompt": "Go"}]')
    server = [sys.executable, str(MCP_SERVER), "--token", mark(22), f"--api-key={mark(23)}"]
    wiring = {
        "links": {"files": {"mcp": {"command": server}}},
        "subject": {"command": [sys.executable, "client.py", "calls.json"], "show": True},
        "prompts": "p.json",
    }
    (mine / "w.json").write_text(json.dumps(wiring))
    environ = environ_in(tmp_path) | VARIABLES | {"XDG_STATE_HOME": str(private)}
    faults = json.dumps({"faults": [{"fault": "tool_error", "links": "files", "when": {"nth": 3}}]})
    done = wirefault(work, environ, "run", str(mine / "w.json"), "--seed", "7", "--faults", faults)
    logs = work / ".wirefault" / "logs"
    events = read_history(logs, latest_run(logs)).events()
    exchanges = [event for event in events if isinstance(event, Exchange)]
    assert [exchange.message for exchange in exchanges].count("tools/call") == len(calls), done.stderr
    assert leaks(done, work, private) == set()
