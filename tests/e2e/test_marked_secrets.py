"""Marked secrets in every place where an agent may have them: no file and no output has one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.examples.serving import served
from tests.lab.demos import environ_in
from wirefault.history.events import Exchange
from wirefault.history.reader import latest_run, read_history

pytestmark = pytest.mark.slow


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

    logs = work / "logs"
    events = read_history(logs, latest_run(logs)).events()
    exchanges = [event for event in events if isinstance(event, Exchange)]
    assert len(exchanges) == len(TARGETS) + len(BODIES) + len(HEADERS)
    assert len({exchange.target for exchange in exchanges}) == len(TARGETS) + 2
    assert "[secret]" in (work / "found.yaml").read_text(encoding="utf-8")
    assert "of the lab: []" in done.stdout
    assert "no end of line: [secret]" in done.stdout
