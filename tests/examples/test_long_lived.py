"""A service that keeps its connections: each request is in the episode of its prompt."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.running import run_wiring
from tests.support import free_port
from tests.upstream import Upstream, requests_of
from wirefault.history.events import Exchange
from wirefault.history.reader import read_run

pytestmark = pytest.mark.slow

PROMPTS, REQUESTS = 50, 4
# it asks for each prompt's number several times, some at once, over connections that it keeps
SERVICE = f"""
import os, sys
from concurrent.futures import ThreadPoolExecutor
import requests
from flask import Flask, request

app, pool, session = Flask("agent"), ThreadPoolExecutor(2), requests.Session()
url = os.environ["SHOP_URL"]

def look(number):
    try:
        session.get(f"{{url}}/numbers/{{number}}", timeout=20)
    except requests.RequestException:
        pass

@app.post("/ask")
def ask():
    number = request.get_json()["prompt"].rpartition(" ")[2]
    list(pool.map(look, [number] * {REQUESTS}))
    connections = session.get_adapter(url).poolmanager.connection_from_url(url)
    return {{"connections": connections.num_connections, "requests": connections.num_requests}}

app.run(port=int(sys.argv[1]), threaded=True)
"""
FAULTS = {
    "faults": [{"fault": "reset", "links": "shop", "when": {"probability": 0.2}}],
    "toxics": [{"toxic": "latency", "links": "shop", "with": {"latency": 40}, "when": {"probability": 0.5}}],
}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Upstream(serve) as upstream:
        yield upstream


def wiring(folder: Path, upstream: Upstream) -> Path:
    port = free_port()
    (folder / "service.py").write_text(SERVICE, encoding="utf-8")
    prompts = [{"id": str(number), "prompt": f"Look at {number}"} for number in range(PROMPTS)]
    (folder / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    subject = {
        "service": [sys.executable, "service.py", str(port)],
        "url": f"http://127.0.0.1:{port}/ask",
    }
    wired = {"links": {"shop": {"upstream": upstream.address.url}}, "subject": subject}
    file = folder / "wirefault.yaml"
    file.write_text(json.dumps({**wired, "prompts": "prompts.json"}), encoding="utf-8")
    return file


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["calm", "latency-and-resets"])
def test_requests_belong_to_their_episode(
    tmp_path: Path, upstream: Upstream, faults: dict[str, Any] | None
) -> None:
    words = ["--toxic-prob", "0", "--error-prob", "0", "--seed", "1"]
    words += ["--faults", json.dumps(faults)] if faults else []
    summary = run_wiring(tmp_path, wiring(tmp_path, upstream), *words)
    assert {episode["outcome"] for episode in summary["episodes"]} == {"unjudged"}
    events = list(read_run(tmp_path / "logs", summary["run_id"]))
    exchanges = [event for event in events if isinstance(event, Exchange)]
    in_episode = Counter((each.episode, each.target.rpartition("/")[2]) for each in exchanges)
    assert in_episode == {(str(number), str(number)): REQUESTS for number in range(PROMPTS)}
    assert {each.identity for each in exchanges} == {"counted"}
    injected_kinds = {fault.kind for each in exchanges for fault in each.faults if fault.injected}
    assert injected_kinds == ({"reset"} if faults else set())
    assert upstream.accepted < PROMPTS * REQUESTS
