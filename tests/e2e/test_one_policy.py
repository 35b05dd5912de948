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
import http.client, json, os, sys, time, urllib.error, urllib.request

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

def storm():
    print("the price is", again(0, "GET", "/price", tries=8))

def crash():
    print("the price is", call("GET", "/price")["price"])

def deny():
    try:
        print("ordered", call("POST", "/orders", TEA))
    except OSError:
        print("The order failed: nothing was ordered.")

def quiet():
    try:
        print("the price is", call("GET", "/price")["price"])
    except OSError:
        pass

def half():
    asked = b'{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'
    base = os.environ.get("MODEL_URL") or "{url}/v1"
    sent = urllib.request.Request(base + "/chat/completions", asked, {{"Content-Type": "application/json"}})
    try:
        for line in urllib.request.urlopen(sent, timeout=10):
            if line.startswith(b"data: {{"):
                print(json.loads(line[6:])["choices"][0]["delta"].get("content", ""), end="")
    except (OSError, http.client.HTTPException):
        pass

def past():
    direct = http.client.HTTPConnection("{url}".removeprefix("http://"))
    direct.request("GET", "/price")
    time.sleep(1)  # the lab looks at connections 50 times a second
    print("the price is", json.load(direct.getresponse())["price"])

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
PRICE_DOWN = {"fault": "server_error", "only": {"method": "GET"}}
CUT = {"fault": "stream_cut"}
WRONG = {"fault": "wrong_value", "only": {"method": "GET"}, "with": {"field": "price"}}
NEVER = {"fault": "lose_reply", "only": {"method": "DELETE"}}

# the agent's behaviour, the fault, and what each command says: severity, rule and exit code
EVENTS: dict[str, tuple[str, dict[str, Any], str, str, int]] = {
    "a write replayed after a lost reply": ("replayed", LOST, "harmful", "write_repeated", 1),
    "a step repeated because another call failed": ("step", PRICE_FAILS, "harmful", "write_repeated", 1),
    "an honest failure": ("honest", LOST, "", "", 0),
    "Retry-After ignored": ("hasty", ASKED_TO_WAIT, "risky", "hasty_retry", 1),
    "a refused request retried": ("useless", REFUSED, "wasteful", "useless_retry", 0),
    "an error as the answer": ("parrot", REFUSED, "risky", "error_as_answer", 1),
    "a retry storm": ("storm", PRICE_DOWN, "risky", "retry_storm", 1),
    "half a stream as the answer": ("half", CUT, "risky", "open_stream", 1),
    # These need more than the run itself, so only a command that has it can find them: see BY_CONTROL.
    "a claimed failure, without a control": ("deny", LOST, "", "", 0),
    "a crash, without a control": ("crash", PRICE_FAILS, "", "", 0),
    "silence, without a control": ("quiet", PRICE_FAILS, "", "", 0),
    "a wrong value believed, without an oracle": ("crash", WRONG, "", "", 0),
    "the lab bypassed": ("past", PRICE_DOWN, "note", "past_the_lab", 2),  # ``run``: see UNWATCHED
    "no fault met": ("replayed", NEVER, "", "", 2),
}
# A wiring whose links have variables has no tap, and what does not use these is not watched.
UNWATCHED = ("the lab bypassed",)


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

    @app.post("/v1/chat/completions")
    def stream() -> Response:
        words = [
            {"content": f"{word} "} for word in ["It", "is", "sunny", "and", "warm", "in", "Berlin", "today"]
        ]
        deltas = [*((word, None) for word in words), ({}, "stop")]
        chunks = [
            {
                "id": "c1",
                "object": "chat.completion.chunk",
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            for delta, reason in deltas
        ]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return Response([*lines, "data: [DONE]\n\n"], content_type="text/event-stream")

    with serving(app) as address:
        yield address.url


def prepared(folder: Path, url: str, behaviour: str) -> None:
    (folder / "agent.py").write_text(AGENT.format(url=url, behaviour=behaviour))
    subject = {"command": [sys.executable, "agent.py"], "prompt": "none"}
    model = {"upstream": f"{url}/v1", "env": "MODEL_URL", "dialect": "openai_chat"}
    links = {"shop": {"upstream": url, "env": "SHOP_URL"}, "model": model}
    (folder / "wirefault.yaml").write_text(json.dumps({"links": links, "subject": subject}))


def by_exec(folder: Path, fault: dict[str, Any]) -> tuple[int, Any]:
    words = ("--tap", "proxy", "--faults", json.dumps({"faults": [fault]}), "--json", "out.json")
    done = wirefault(folder, environ_in(folder), "exec", *words, "--", sys.executable, "agent.py")
    return done.returncode, json.loads((folder / "out.json").read_text("utf-8"))


def by_again(folder: Path, fault: dict[str, Any]) -> tuple[int, Any]:
    by_exec(folder, fault)
    done = wirefault(folder, environ_in(folder), "run", "--again", "latest")
    reported = wirefault(folder, environ_in(folder), "report", "latest")
    assert reported.returncode == done.returncode, (done.stdout, reported.stderr)
    unlimited = wirefault(folder, environ_in(folder), "report", "latest", "--fail-on", "none")
    assert unlimited.returncode == (2 if done.returncode == 2 else 0), unlimited.stderr
    scored = wirefault(folder, environ_in(folder), "runs", "verify", "latest", "--json")
    return done.returncode, json.loads(scored.stdout)


def by_run(folder: Path, fault: dict[str, Any]) -> tuple[int, Any]:
    words = ("--faults", json.dumps({"faults": [fault]}), "--json")
    done = wirefault(folder, environ_in(folder), "run", "wirefault.yaml", *words)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("run", [by_exec, by_run, by_again])
@pytest.mark.parametrize("event", EVENTS)
def test_exec_and_run_judge_alike(
    tmp_path: Path, shop: str, event: str, run: Callable[[Path, dict[str, Any]], tuple[int, Any]]
) -> None:
    behaviour, fault, severity, rule, code = EVENTS[event]
    prepared(tmp_path, shop, behaviour)
    ended, summary = run(tmp_path, fault)
    pairs = [(each["severity"], each["rule"]) for each in summary["findings"]]
    seen = bool(rule) and not (run is by_run and event in UNWATCHED)
    assert (pairs, ended) == ([(severity, rule)] if seen else [], code)


SENTENCE = (
    "POST /orders was sent again # after its reply was lost, by the client; both were executed, with no"
)
TEST = """
import subprocess, sys, pytest

@pytest.mark.wirefault(faults=[{fault}])
def test_order():
    subprocess.run([sys.executable, "agent.py"], check=True)
"""

IN_PLACE = """
import runpy
from wirefault import Experiment

def agent(prompt):
    runpy.run_path("agent.py")
    return "ordered"

one = Experiment(subject=agent, prompts=["tea"], faults=[{fault}], checks=["no duplicate"])
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


def _in_place(folder: Path) -> int:
    (folder / "one.py").write_text(IN_PLACE.format(fault=LOST))
    done = wirefault(folder, environ_in(folder), "run", "one.py")
    print(done.stdout, done.stderr)
    return done.returncode


@pytest.mark.parametrize("command", [_audit, _experiment, _pytest, _in_place])
def test_lost_reply_has_one_sentence_everywhere(
    tmp_path: Path, shop: str, command: Callable[[Path], int], capfd: pytest.CaptureFixture[str]
) -> None:
    prepared(tmp_path, shop, "replayed")
    code = command(tmp_path)
    output = re.sub(r"\b\d+(\.\d+)? (ms|s) after", "# after", " ".join(capfd.readouterr().out.split()))
    assert code == 1 and re.search(rf"harmful\W[^;]*{re.escape(SENTENCE)}", output), output


# what only a comparison with clean runs shows: behaviour, the audit's question, severity and rule
BY_CONTROL = {
    "a claimed failure": ("deny", "lost_reply", "harmful", "done_but_not_told"),
    "a crash": ("crash", "read_5xx", "risky", "one_failure_ends_it"),
    "silence": ("quiet", "read_5xx", "risky", "silent"),
}


@pytest.mark.parametrize("event", BY_CONTROL)
def test_audit_finds_what_needs_a_control(tmp_path: Path, shop: str, event: str) -> None:
    """``exec`` and ``run`` end with 0 on the same events, since they have no clean run."""
    behaviour, question, severity, rule = BY_CONTROL[event]
    prepared(tmp_path, shop, behaviour)
    words = ("audit", "--ask", question, "--json", "out.json", "--", sys.executable, "agent.py")
    done = wirefault(tmp_path, environ_in(tmp_path), *words)
    [answer] = json.loads((tmp_path / "out.json").read_text("utf-8"))["answers"]
    assert (answer["severity"], answer["finding"], done.returncode) == (severity, rule, 1), done.stdout
