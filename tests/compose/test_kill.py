"""An agent in a container of its user's Compose project, killed at a point of the wire and started again."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.compose.engine import PROJECT, V1, V2, base_images, has, remove
from tests.lab.demos import environ_in
from tests.upstream import FREE, counting_shop
from wirefault.core.sockets import bind, bound_address
from wirefault.experiments.saved import load_saved
from wirefault.history.events import SubjectKilled, SubjectResumed

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def do_POST(self):
        item = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        body = json.dumps({"item": item}).encode()
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": "1"} if "kept" in item else {})}
        order = urllib.request.Request(os.environ["SHOP_URL"] + "/orders", body, headers)
        urllib.request.urlopen(order, timeout=60).read()
        content = b"done: ordered"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent).serve_forever()
"""
COMPOSE = """
services:
  agent:
    image: {image}
    network_mode: host
    restart: unless-stopped
    command: [python, /agent.py, "{port}"]
    environment: [SHOP_URL]
    volumes: ["{folder}/agent.py:/agent.py:ro"]
"""
WIRING = """
links: {{shop: {{upstream: "{shop}", env: SHOP_URL, writes: [POST /orders]}}}}
subject:
  http: http://127.0.0.1:{port}/ask
  ready: http://127.0.0.1:{port}/
  kill: {kill}
  resume: {up}
"""
EXPERIMENT = """
title: Killed in Compose
prompts:
  - {id: tea, prompt: tea, expect: {answer: {contains: done}}}
  - {id: kept, prompt: kept tea, expect: {answer: {contains: done}}}
wiring: wirefault.yaml
method: {faults: {faults: [{fault: kill_subject, links: shop}]}}
hypothesis: [no duplicate]
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[str, Counter[str]]]:
    """Its address, and the requests for each order that it executed."""
    with counting_shop() as shop:
        yield shop


@pytest.fixture(scope="module")
def project(
    engine: None, shop: tuple[str, Counter[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of a user's project whose agent runs in a container, on this machine's network."""
    folder, name = tmp_path_factory.mktemp("killed"), f"{PROJECT}killed-{os.getpid()}"
    folder.chmod(0o755)
    with bind(FREE) as listener:
        port = bound_address(listener).port
    compose = [*(V2 if has(V2) else V1), "-p", name, "-f", str(folder / "compose.yaml")]
    (folder / "agent.py").write_text(AGENT)
    (folder / "compose.yaml").write_text(COMPOSE.format(image=base_images()[0], port=port, folder=folder))
    kill = ["docker", "kill", "--signal", "{signal}", f"{name}-agent-1" if has(V2) else f"{name}_agent_1"]
    up = [*compose, "up", "-d", "agent"]
    (folder / "wirefault.yaml").write_text(
        WIRING.format(shop=shop[0], port=port, kill=json.dumps(kill), up=json.dumps(up))
    )
    (folder / "x.yaml").write_text(EXPERIMENT)
    try:
        yield folder
    finally:
        remove(name)


def run(folder: Path, file: str) -> Any:
    return commands.wirefault(folder, environ_in(folder), "run", file, "--toxiproxy", "embedded", "--json")


def test_container_is_killed_and_started_again(project: Path, shop: tuple[str, Counter[str]]) -> None:
    done = run(project, "x.yaml")
    assert done.returncode == 1, done.stderr
    logs, result = project / ".wirefault" / "logs", json.loads(done.stdout)
    saved = load_saved(logs, result["experiment"], {"LOGS_DIR": str(logs)})
    events = list(saved.history_of(saved.plan.arms[1]).events)
    killed = [event for event in events if isinstance(event, SubjectKilled)]
    resumed = [event for event in events if isinstance(event, SubjectResumed)]
    assert [(event.point, event.dead) for event in killed] == [("before_reply", True)] * 2
    assert len(resumed) == 2 and all(event.command.endswith("up -d agent") for event in resumed)
    [check] = [each for each in result["checks"] if each["statement"] == "no duplicate"]
    assert (check["verdict"], check["episodes"]) == ("deviated", ["tea"]), check
    # once in each control, twice around the kill; a shop with keys carries the second one out once
    assert shop[1] == {"tea": 2 + 2, "kept tea": 2 + 2}
