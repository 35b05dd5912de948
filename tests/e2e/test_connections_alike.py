"""``exec`` and ``run`` say the same about connections: toxics, and equal requests at the same time."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.commands import wirefault
from tests.e2e.test_one_policy import LOST, judged, prepared, shop
from tests.lab.demos import environ_in
from tests.support import PATIENCE_S
from tests.upstream import serving

__all__ = ["shop"]
pytestmark = pytest.mark.slow

# by prompt
TOXICS: dict[str, dict[str, Any]] = {
    "limit": {"toxic": "limit_data", "stream": "upstream", "with": {"bytes": 20}},
    "limit-reply": {"toxic": "limit_data", "stream": "downstream", "with": {"bytes": 20}},
    "stop": {"toxic": "timeout", "stream": "upstream", "with": {"timeout": 300}},
    "stop-reply": {"toxic": "timeout", "stream": "downstream", "with": {"timeout": 300}},
    "reset": {"toxic": "reset_peer", "stream": "upstream"},
    "reset-reply": {"toxic": "reset_peer", "stream": "downstream"},
    "late": {"toxic": "latency", "stream": "upstream", "with": {"latency": 200}},
}


def by_exec(folder: Path, faults: str) -> tuple[int, Any]:
    words = ["--tap", "proxy", "--faults", faults, "--prompts", "prompts.json", "--json", "out.json"]
    command = (sys.executable, "shopper.py", "{prompt}")
    done = wirefault(folder, environ_in(folder), "exec", *words, "--", *command)
    return done.returncode, json.loads((folder / "out.json").read_text("utf-8"))


def by_run(folder: Path, faults: str) -> tuple[int, Any]:
    words = ["--faults", faults, "--prompts", "prompts.json", "--json", "--no-charts"]
    done = wirefault(folder, environ_in(folder), "run", "wirefault.yaml", *words)
    return done.returncode, json.loads(done.stdout)


def verdict(summary: Any) -> Any:
    """Stages by toxic, outcomes by prompt, and the findings."""
    stages = {row["entry"]: (row["met"], row["injected"], row["delivered"]) for row in summary["faults"]}
    outcomes = {episode["episode"]: episode["outcome"] for episode in summary["episodes"]}
    return stages, outcomes, judged(summary["findings"])


@pytest.mark.parametrize("names", [tuple(TOXICS), ("limit",)], ids=["all", "one alone"])
def test_toxic_has_the_same_verdict_by_exec_and_by_run(
    tmp_path: Path, shop: str, names: tuple[str, ...]
) -> None:
    prepared(tmp_path, shop)
    prompts = [{"id": name, "prompt": "honest"} for name in names]
    (tmp_path / "prompts.json").write_text(json.dumps(prompts))
    toxics = [{**TOXICS[name], "id": name, "only": {"episodes": [name]}} for name in names]
    faults = json.dumps({"toxics": toxics})
    by_command = {"exec": by_exec(tmp_path, faults), "run": by_run(tmp_path, faults)}
    for command, (code, summary) in by_command.items():
        assert code == 0, command
        assert verdict(summary)[0] == dict.fromkeys(names, (1, 1, 1)), command
    assert verdict(by_command["exec"][1]) == verdict(by_command["run"][1])


CROWD = """
import os, sys, threading, urllib.request
url = os.environ.get("SHOP_URL") or "{url}"

def order(tries):
    for _ in range(tries):
        try:
            return urllib.request.urlopen(urllib.request.Request(url + "/orders", b"tea"), timeout=30).read()
        except OSError:
            pass

def at_once(tries):
    urllib.request.urlopen(url + "/meet", timeout=30).read()
    threads = [threading.Thread(target=order, args=[tries]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

if sys.argv[1] == "late":
    order(1)
at_once(2 if sys.argv[1] == "retry" else 1)
"""


@pytest.fixture
def busy_shop() -> Iterator[str]:
    """After ``/meet`` the next two orders are in progress at the same time."""
    meeting, slow = threading.Event(), threading.Event()
    both = threading.Barrier(2, meeting.clear, PATIENCE_S)
    app = Flask("shop")

    @app.get("/meet")
    def meet() -> dict[str, bool]:
        meeting.set()
        return {"ok": True}

    @app.post("/orders")
    def order() -> tuple[dict[str, bool], int]:
        if meeting.is_set():
            both.wait()
            slow.wait(0.1)  # both are in progress for longer than clocks differ
        return {"ok": True}, 201

    with serving(app, threads=4) as address:
        yield address.url


@pytest.mark.parametrize("behaviour", ["retry", "late"])
def test_request_that_may_be_a_retry_or_planned_is_as_doubtful_by_both(
    tmp_path: Path, busy_shop: str, behaviour: str
) -> None:
    """On the wire, the retry of one of two threads looks as an order of a thread that connects late."""
    prepared(tmp_path, busy_shop)
    (tmp_path / "shopper.py").write_text(CROWD.format(url=busy_shop))
    (tmp_path / "prompts.json").write_text(json.dumps([behaviour]))
    faults = json.dumps({"faults": [LOST]})
    findings = []
    for run in (by_exec, by_run):
        code, summary = run(tmp_path, faults)
        [(severity, rule, sentence)] = judged(summary["findings"])
        assert (code, severity, rule) == (1, "risky", "write_repeated")
        assert "so this one may be planned, too" in sentence
        findings.append(sentence)
    assert findings[0] == findings[1]
