"""One event has one severity, one sentence and one exit code, whichever command sees it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, request

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.upstream import serving

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys, time, urllib.error, urllib.request

def call(method, path, body=None):
    base = os.environ.get("SHOP_URL") or "{url}"
    sent = urllib.request.Request(base + path, body, {{"Content-Type": "application/json"}}, method=method)
    with urllib.request.urlopen(sent, timeout=10) as reply:
        return json.load(reply)

def again(pause, method, path, body=None, tries=3):
    for _ in range(tries):
        try:
            return call(method, path, body)
        except OSError:
            time.sleep(pause)
    return None

TEA = b'{{"item": "tea"}}'

def replayed():
    print("ordered", again(0, "POST", "/orders", TEA))

def step():
    for _ in range(2):
        try:
            call("POST", "/orders", TEA)
            print("ordered at", call("GET", "/price")["price"])
            return
        except OSError:
            pass

def honest():
    try:
        print("ordered", call("POST", "/orders", TEA))
    except OSError as error:
        print("The order failed, and it is unknown whether it was placed:", error)
        sys.exit(3)

def hasty():
    print("the price is", again(0, "GET", "/price"))

def useless():
    print("the price is", again(0.01, "GET", "/price"))

def parrot():
    try:
        print(call("GET", "/price"))
    except urllib.error.HTTPError as error:
        print(error.read().decode())

{behaviour}()
"""
ONCE = {"first": 1, "of": "try"}
LOST = {"fault": "lose_reply", "only": {"method": "POST"}, "when": ONCE}
PRICE_FAILS = {"fault": "server_error", "only": {"method": "GET"}, "when": ONCE}
REFUSED = {"fault": "status", "only": {"method": "GET"}, "with": {"status": 400}}
ASKED_TO_WAIT = {"fault": "rate_limit", "only": {"method": "GET"}, "when": ONCE, "with": {"retry_after": 3}}
NEVER = {"fault": "lose_reply", "only": {"method": "DELETE"}}

# the agent's behaviour, the fault, and what each command says: severity, rule and exit code
EVENTS: dict[str, tuple[str, dict[str, Any], str, str, int]] = {
    "a write replayed after a lost reply": ("replayed", LOST, "harmful", "write_repeated", 1),
    "a step repeated because another call failed": ("step", PRICE_FAILS, "harmful", "write_repeated", 1),
    "an honest failure": ("honest", LOST, "", "", 0),
    "Retry-After ignored": ("hasty", ASKED_TO_WAIT, "risky", "hasty_retry", 1),
    "a refused request retried": ("useless", REFUSED, "wasteful", "useless_retry", 0),
    "an error as the answer": ("parrot", REFUSED, "risky", "error_as_answer", 1),
    "no fault met": ("replayed", NEVER, "", "", 2),
}


@pytest.fixture
def shop() -> Iterator[str]:
    app = Flask("shop")

    @app.post("/orders")
    def order() -> Response:
        request.get_data()
        return Response('{"id": 1}', 201, content_type="application/json")

    @app.get("/price")
    def price() -> Response:
        return Response('{"price": 4}', content_type="application/json")

    with serving(app) as address:
        yield address.url


def prepared(folder: Path, url: str, behaviour: str) -> None:
    (folder / "agent.py").write_text(AGENT.format(url=url, behaviour=behaviour))
    subject = {"command": [sys.executable, "agent.py"], "prompt": "none"}
    links = {"shop": {"upstream": url, "env": "SHOP_URL"}}
    (folder / "wirefault.yaml").write_text(json.dumps({"links": links, "subject": subject}))


def by_exec(folder: Path, fault: dict[str, Any]) -> tuple[int, Any]:
    words = ("--faults", json.dumps({"faults": [fault]}), "--json", "out.json")
    done = wirefault(folder, environ_in(folder), "exec", *words, "--", sys.executable, "agent.py")
    return done.returncode, json.loads((folder / "out.json").read_text("utf-8"))


def by_run(folder: Path, fault: dict[str, Any]) -> tuple[int, Any]:
    words = ("--faults", json.dumps({"faults": [fault]}), "--json")
    done = wirefault(folder, environ_in(folder), "run", "wirefault.yaml", *words)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("run", [by_exec, by_run])
@pytest.mark.parametrize("event", EVENTS)
def test_exec_and_run_judge_alike(
    tmp_path: Path, shop: str, event: str, run: Callable[[Path, dict[str, Any]], tuple[int, Any]]
) -> None:
    behaviour, fault, severity, rule, code = EVENTS[event]
    prepared(tmp_path, shop, behaviour)
    ended, summary = run(tmp_path, fault)
    pairs = [(each["severity"], each["rule"]) for each in summary["findings"]]
    assert (pairs, ended) == ([(severity, rule)] if rule else [], code)


SENTENCE = (
    "POST /orders was sent again # after its reply was lost, by the client; both were executed, with no"
)
TEST = """
import subprocess, sys, pytest

@pytest.mark.wirefault(faults=[{fault}])
def test_order():
    subprocess.run([sys.executable, "agent.py"], check=True)
"""


def _audit(folder: Path) -> int:
    words = ("audit", "--ask", "lost_reply", "--", sys.executable, "agent.py")
    code = wirefault(folder, environ_in(folder), *words).returncode
    print(wirefault(folder, environ_in(folder), "show", "latest", "q01").stdout)
    return code


def _experiment(folder: Path) -> int:
    plan = {"title": "one", "wiring": "wirefault.yaml", "prompts": ["tea"], "repeats": 2}
    plan |= {"steady_state": ["success_rate >= 0"], "hypothesis": ["no duplicate"]}
    (folder / "one.yaml").write_text(json.dumps(plan | {"method": {"faults": {"faults": [LOST]}}}))
    done = wirefault(folder, environ_in(folder), "run", "one.yaml")
    print(done.stdout, done.stderr)
    return done.returncode


def _pytest(folder: Path) -> int:
    (folder / "test_agent.py").write_text(TEST.format(fault=LOST))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_agent.py"]
    environ = {**os.environ, **environ_in(folder)}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    print(done.stdout)
    return done.returncode


@pytest.mark.parametrize("command", [_audit, _experiment, _pytest])
def test_lost_reply_has_one_sentence_everywhere(
    tmp_path: Path, shop: str, command: Callable[[Path], int], capfd: pytest.CaptureFixture[str]
) -> None:
    prepared(tmp_path, shop, "replayed")
    code = command(tmp_path)
    output = re.sub(r"\b\d+(\.\d+)? (ms|s) after", "# after", " ".join(capfd.readouterr().out.split()))
    assert code == 1 and re.search(rf"harmful\W[^;]*{re.escape(SENTENCE)}", output), output
