"""A subject that is killed at a point of the wire and resumed, in one experiment from the command line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests import commands
from tests.lab.demos import environ_in
from tests.upstream import FREE, counting_shop
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

STUBBORN = """
import json, os, signal, sys, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

def note_signal(*_):
    Path("signals").open("a").write("SIGTERM ")

def order():
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"item": sys.argv[1]}).encode()
    request = urllib.request.Request(os.environ["SHOP_URL"] + "/orders", body, headers)
    while True:
        try:
            urllib.request.urlopen(request, timeout=30).read()
            signals = Path("signals").read_text() if Path("signals").exists() else "no signal"
            return f"{sys.argv[1]} after {signals}"
        except InterruptedError:
            pass

class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps(order()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

signal.signal(signal.SIGTERM, note_signal)
if len(sys.argv) > 2:
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Service).serve_forever()
print(order())
"""
WAYS = """
title: Ways of resuming
prompts: [{{id: tea, prompt: Order tea}}]
wiring: wirefault.yaml
method:
  faults: {{faults: [{{fault: kill_subject, links: shop, with: {{times: 2, signal: term, grace: 0.2}}}}]}}
arms:
  command: {{subject: {{command: [{python}, {agent}, started], resume: [{python}, {agent}, resumed]}}}}
  service:
    subject:
      service: [{python}, {agent}, up, "{port}"]
      resume: [{python}, {agent}, up again, "{port}"]
      url: "http://127.0.0.1:{port}/"
      folder: {folder}
"""


@pytest.fixture(scope="module")
def orders() -> Iterator[tuple[str, Counter[str]]]:
    """The address of a shop, and the requests for each order that it executed."""
    with counting_shop() as shop:
        yield shop


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


@pytest.fixture(scope="module")
def ways(
    orders: tuple[str, Counter[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[Any], Summary]]:
    """By kind of subject: the events of its arm and their summary. Each is killed twice by SIGTERM."""
    folder = tmp_path_factory.mktemp("ways")
    agent, service_folder = folder / "stubborn.py", folder / "service"
    agent.write_text(STUBBORN)
    service_folder.mkdir()
    with bind(FREE) as listener:
        port = bound_address(listener).port
    (folder / "wirefault.yaml").write_text(WIRING.format(url=orders[0], python=sys.executable, agent=agent))
    text = WAYS.format(python=sys.executable, agent=agent, port=port, folder=service_folder)
    (folder / "x.yaml").write_text(text)
    done = commands.wirefault(
        folder, environ_in(folder), "run", "x.yaml", "--toxiproxy", "embedded", "--json"
    )
    assert done.returncode in (0, 1), done.stderr
    logs = folder / ".wirefault" / "logs"
    tournament = json.loads(done.stdout)["tournament"]
    saved = [load_saved(logs, f"{tournament}.{place}", {"LOGS_DIR": str(logs)}) for place in (1, 2)]
    histories = [list(each.history_of(each.plan.arms[1]).events) for each in saved]
    return {
        name: (events, summarise(events))
        for name, events in zip(("command", "service"), histories, strict=True)
    }


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


@pytest.mark.parametrize(("kind", "answer"), [("command", "resumed"), ("service", "up again")])
def test_resume_command_runs_after_each_of_several_kills(
    kind: str, answer: str, ways: dict[str, Any]
) -> None:
    """A service's client waits: its request is sent again to the resumed process."""
    events, summary = ways[kind]
    kills = [event for event in events if isinstance(event, SubjectKilled)]
    resumed = [event for event in events if isinstance(event, SubjectResumed)]
    [ended] = [event for event in events if isinstance(event, AttemptEnded)]
    assert [event.number for event in kills] == [event.number for event in resumed] == [1, 2]
    assert all(answer in event.command for event in resumed)
    assert ended.response.strip() == f"{answer} after SIGTERM SIGTERM"
    [point] = summary.kills
    figures = (point.n, point.lost, point.repeated, point.repeated_writes, point.recovered)
    assert figures == (2, 2, 1, 1, 2)  # the first process orders another item


@pytest.mark.parametrize("kind", ["command", "service"])
def test_subject_that_outlasts_its_grace_is_dead(kind: str, ways: dict[str, Any]) -> None:
    kills = [event for event in ways[kind][0] if isinstance(event, SubjectKilled)]
    assert [(kill.signal, kill.dead, kill.ms > 200) for kill in kills] == [("term", True, True)] * 2
