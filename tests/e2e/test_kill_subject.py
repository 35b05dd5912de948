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
import json, os, signal, sys, urllib.request
from pathlib import Path

prompt, progress = sys.argv[1], Path("progress.json")
keeps, notes = "kept" in prompt, "noted" in prompt
steps = json.loads(progress.read_text()) if (keeps or notes) and progress.exists() else []
current = []

def end_in_time(*_):
    progress.write_text(json.dumps(steps + current))
    sys.exit(1)

if notes:
    signal.signal(signal.SIGTERM, end_in_time)

def post(url, body):
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": "order-1"} if keeps else {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=30).read()

def step(name, url, body):
    if name not in steps:
        current[:] = [name]
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
    "after_reply": "{fault: kill_subject, links: shop, with: {at: after_reply, wait_ms: 3000}}",
    "mid_stream": "{fault: kill_subject, links: model, with: {at: mid_stream}, when: {nth: 2}}",
    "before_request": "{fault: kill_subject, links: model, with: {at: before_request, signal: term},"
    " when: {nth: 2}}",
}
TERM = "signal: term, grace: 20}}"  # enough to end in it
IN_GRACE = {
    "executed": "{fault: kill_subject, links: shop, with: {at: before_reply, " + TERM,
    "not_executed": "{fault: kill_subject, links: shop, with: {at: before_request, " + TERM,
}
EXPERIMENT = """
title: Killed and resumed
prompts:
  - {id: anew, prompt: Order tea anew, expect: {answer: {contains: done}}}
  - {id: kept, prompt: Order tea kept, expect: {answer: {contains: done}}}
  - {id: noted, prompt: Order tea noted, expect: {answer: {contains: done}}}
wiring: wirefault.yaml
hypothesis: [no duplicate]
"""

STUBBORN = """
import json, os, signal, sys, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

def note_signal(*_):
    Path("signals").open("a").write("SIGTERM ")

def order(keyed=False):
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": "order-1"} if keyed else {})}
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
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps(order(b"keyed" in body)).encode()
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
prompts: [{{id: tea, prompt: Order tea}}, {{id: keyed, prompt: Order tea keyed}}]
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
    faults = {**POINTS, **IN_GRACE}
    variants = "".join(f"  {name}: {{faults: {{faults: [{fault}]}}}}\n" for name, fault in faults.items())
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
    return {name: (histories[name], summarise(histories[name]), checks[name]) for name in faults}


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
    # SIGKILL before the reply leaves no time to note the order
    twice = ["anew", "noted"] if point == "before_reply" else ["anew"]
    assert (check["verdict"], check["episodes"]) == ("deviated", twice), check
    assert "POST /orders of shop executed twice, but once in each of" in check["message"]
    repeated = [finding for finding in summary.findings if finding.rule == "write_repeated"]
    assert [(each.episode, each.severity) for each in repeated] == [(each, "harmful") for each in twice]
    assert [judged.outcome for judged in summary.episodes if judged.episode == "kept"] == ["success"]


def test_subject_that_notes_its_step_in_its_grace_repeats_no_write(arms: dict[str, Any]) -> None:
    _, summary, check = arms["executed"]
    assert (check["verdict"], check["episodes"]) == ("deviated", ["anew"])
    assert [judged.outcome for judged in summary.episodes if judged.episode == "noted"] == ["success"]


def test_step_noted_in_its_grace_is_lost_if_it_was_not_executed(
    arms: dict[str, Any], orders: tuple[str, Counter[str]]
) -> None:
    events, _, check = arms["not_executed"]
    assert check["verdict"] == "held"  # of all writes in their 3 episodes
    answers = {event.episode: event.response.strip() for event in events if isinstance(event, AttemptEnded)}
    assert answers["noted"] == "done: the order was placed"
    control = 2  # before and after the arms
    executed = {"anew": 4 * 2 + 2 + 1, "kept": 2 + 3 + 2 + 1, "noted": 2 + 3 + 1 + 0}
    assert orders[1] == {f"Order tea {name}": control + count for name, count in executed.items()}


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
    ended = [event for event in events if isinstance(event, AttemptEnded) and event.episode == "tea"]
    assert [event.number for event in kills] == [event.number for event in resumed] == [1, 2, 1, 2]
    assert all(answer in event.command for event in resumed)
    assert [event.response.strip() for event in ended] == [f"{answer} after SIGTERM SIGTERM"]
    [point] = summary.kills
    first, second = (kill for kill in point.kills if kill.episode == "tea")
    assert all(kill.lost and kill.recovered for kill in (first, second))
    assert (first.repeated_writes, second.repeated_writes) == (0, 1)  # the first process orders another item


def test_restarted_service_repeats_write_unless_it_has_the_same_key(ways: dict[str, Any]) -> None:
    _, summary = ways["service"]
    repeated = [finding.episode for finding in summary.findings if finding.rule == "write_repeated"]
    assert repeated == ["tea"]
    [point] = summary.kills
    assert sum(kill.repeated_writes for kill in point.kills if kill.episode == "keyed") == 2


@pytest.mark.parametrize("kind", ["command", "service"])
def test_subject_that_outlasts_its_grace_is_dead(kind: str, ways: dict[str, Any]) -> None:
    kills = [event for event in ways[kind][0] if isinstance(event, SubjectKilled)]
    assert [(kill.signal, kill.dead, kill.ms > 200) for kill in kills] == [("term", True, True)] * 4
