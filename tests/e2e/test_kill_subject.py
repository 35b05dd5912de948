"""A subject that is killed at a point of the wire and resumed, in one experiment from the command line."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import waitress
from flask import Flask, request

from tests import commands
from tests.lab.demos import environ_in
from tests.support import PATIENCE_S
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.experiments.saved import load_saved
from wirefault.history.events import AttemptEnded, SubjectKilled, SubjectResumed
from wirefault.judging.summary import Summary, summarise

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys, urllib.request
from pathlib import Path

prompt, progress = sys.argv[1], Path("progress.json")
keeps = "kept" in prompt
steps = json.loads(progress.read_text()) if keeps and progress.exists() else []

def post(url, body):
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": "order-1"} if keeps else {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=30).read()

def step(name, url, body):
    if name not in steps:
        post(url, body)
        steps.append(name)
        progress.write_text(json.dumps(steps))

ask = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": prompt}]}
step("plan", os.environ["OPENAI_BASE_URL"] + "/chat/completions", ask)
step("order", os.environ["SHOP_URL"] + "/orders", {"item": prompt})
step("close", os.environ["OPENAI_BASE_URL"] + "/chat/completions", ask)
print("done: the order was placed")
"""
WIRING = """
links:
  model: {{upstream: scripted, dialect: openai_chat, env: OPENAI_BASE_URL}}
  shop: {{upstream: "{url}", env: SHOP_URL, writes: [POST /orders]}}
subject: {{command: [{python}, {agent}, "{{prompt}}"], answer: stdout}}
"""
POINTS = {
    "before_reply": "{fault: kill_subject, links: shop}",
    "after_reply": "{fault: kill_subject, links: shop, with: {at: after_reply, wait_ms: 500}}",
    "mid_stream": "{fault: kill_subject, links: model, with: {at: mid_stream}, when: {nth: 2}}",
    "before_request": "{fault: kill_subject, links: model, with: {at: before_request, signal: term},"
    " when: {nth: 2}}",
}
EXPERIMENT = """
title: Killed and resumed
prompts:
  - {id: anew, prompt: Order tea anew, expect: {answer: {contains: done}}}
  - {id: kept, prompt: Order tea kept, expect: {answer: {contains: done}}}
wiring: wirefault.yaml
repeats: 2
hypothesis: [no duplicate]
"""


@pytest.fixture(scope="module")
def orders() -> Iterator[tuple[str, Counter[str]]]:
    """The address of a shop, and the requests for each order that it executed."""
    executed: Counter[str] = Counter()
    app = Flask("shop")

    @app.post("/orders")
    def order() -> Any:
        executed[request.get_json()["item"]] += 1
        return {"ordered": True}, 201

    listener = bind(FREE)
    server = waitress.create_server(app, sockets=[listener], threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield bound_address(listener).url, executed
    server.trigger.pull_trigger(server.close)
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def arms(
    orders: tuple[str, Counter[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[Any], Summary, dict[str, Any]]]:
    """By point: the events of its arm, their summary, and the check of the writes."""
    folder = tmp_path_factory.mktemp("kills")
    agent = folder / "agent.py"
    agent.write_text(AGENT)
    (folder / "wirefault.yaml").write_text(WIRING.format(url=orders[0], python=sys.executable, agent=agent))
    variants = "".join(f"  {name}: {{faults: {{faults: [{fault}]}}}}\n" for name, fault in POINTS.items())
    (folder / "x.yaml").write_text(f"{EXPERIMENT}variants:\n{variants}")
    done = commands.wirefault(
        folder, environ_in(folder), "run", "x.yaml", "--toxiproxy", "embedded", "--json"
    )
    assert done.returncode == 1, done.stderr
    logs = folder / ".wirefault" / "logs"
    result = json.loads(done.stdout)
    saved = load_saved(logs, result["experiment"], {"LOGS_DIR": str(logs)})
    histories = {arm.name: list(saved.history_of(arm).events) for arm in saved.plan.arms}
    checks = {check["arm"]: check for check in result["checks"] if check["statement"] == "no duplicate"}
    return {name: (histories[name], summarise(histories[name]), checks[name]) for name in POINTS}


@pytest.mark.parametrize("point", POINTS)
def test_subject_that_starts_anew_repeats_write(point: str, arms: dict[str, Any]) -> None:
    _, summary, check = arms[point]
    assert (check["verdict"], check["episodes"]) == ("deviated", ["anew", "anew.r2"]), check
    assert "POST /orders of shop executed twice, once in each of" in check["message"]
    repeated = [finding for finding in summary.findings if finding.rule == "write_repeated"]
    assert [(finding.episode, finding.severity) for finding in repeated] == [
        ("anew", "harmful"),
        ("anew.r2", "harmful"),
    ]
    assert [judged.outcome for judged in summary.episodes if "kept" in judged.episode] == ["success"] * 2


def test_writes_of_one_key_are_sent_again_only_without_reply(
    arms: dict[str, Any], orders: tuple[str, Counter[str]]
) -> None:
    control = 2 * 2  # before and after the arms
    assert orders[1] == {"Order tea anew": control + 4 * 2 * 2, "Order tea kept": control + 4 * 2 + 2}


@pytest.mark.parametrize("point", POINTS)
def test_kill_is_recorded_once_and_observed(point: str, arms: dict[str, Any]) -> None:
    events, summary, _ = arms[point]
    kills = [event for event in events if isinstance(event, SubjectKilled)]
    resumed = [event.episode for event in events if isinstance(event, SubjectResumed)]
    episodes = sorted(judged.episode for judged in summary.episodes)
    assert sorted(event.episode for event in kills) == sorted(resumed) == episodes
    assert {(event.point, event.dead) for event in kills} == {(point, True)}
    assert {event.attempt for event in events if isinstance(event, AttemptEnded)} == {1}
    records = [record for judged in summary.episodes for record in judged.faults]
    stages = [(record.kind, record.stage, record.delivered) for record in records]
    assert stages == [("kill_subject", "observed", True)] * len(episodes)
