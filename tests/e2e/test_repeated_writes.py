"""A foreign agent that repeats a whole step after a failure, in an experiment from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request

from tests import commands
from tests.lab.demos import environ_in
from tests.upstream import serving
from wirefault.experiments.saved import load_saved
from wirefault.judging.summary import summarise

pytestmark = pytest.mark.slow

AGENT = """
import json, os, sys, urllib.request, uuid

def call(path, **order):
    body = json.dumps(order).encode() if order else None
    url = os.environ["SHOP_URL"] + path
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))

def once():
    call("/orders", item="tea", **({"order_id": str(uuid.uuid4())} if "fresh" in sys.argv else {}))
    if "twice" in sys.argv:
        call("/orders", item="tea")
    return call("/price")["price"]

if "between" in sys.argv:
    call("/orders", item="tea")
    try:
        call("/price")
    except OSError:
        pass
    call("/orders", item="tea")
    print("done: two orders were placed")
    sys.exit()
if "once" in sys.argv:
    print("done: the order was placed, the price is", once())
    sys.exit()
for _ in range(3):
    try:
        print("done: the price is", once())
        break
    except OSError:
        if "twice" in sys.argv:
            print("done: the price is unknown")
            break
"""
EXPERIMENT = """
title: A step retried whole
prompts: [{{id: tea, prompt: Order tea, expect: {{answer: {{contains: done}}}}}}]
repeats: 3
wiring: wirefault.yaml
method:
  faults: {{faults: [{{fault: server_error, links: shop, when: {{first: 1}}, only: {{method: GET}}}}]}}
hypothesis: [no duplicate, success == all]
"""
WIRING = """
links: {{shop: {{upstream: "{url}", env: SHOP_URL{writes}}}}}
subject: {{command: [{python}, agent.py, "{{prompt}}"{words}], answer: stdout}}
"""


@pytest.fixture
def shop() -> Iterator[tuple[str, list[Any]]]:
    """The address of a shop, and its orders."""
    orders: list[Any] = []
    app = Flask("shop")

    @app.post("/orders")
    def order() -> Any:
        orders.append(request.get_json())
        return {"ordered": len(orders)}, 201

    @app.get("/price")
    def price() -> Any:
        return {"price": 4}

    with serving(app) as address:
        yield address.url, orders


def experiment(
    folder: Path, url: str, *words: str, declared: bool = True, assertions: str = "[]"
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    (folder / "agent.py").write_text(AGENT)
    (folder / "x.yaml").write_text(f"{EXPERIMENT.format()}assertions: {assertions}\n")
    writes = ", writes: [POST /orders]" if declared else ""
    more = "".join(f", {word}" for word in words)
    (folder / "wirefault.yaml").write_text(
        WIRING.format(url=url, writes=writes, python=sys.executable, words=more)
    )
    done = commands.wirefault(
        folder, environ_in(folder), "run", "x.yaml", "--toxiproxy", "embedded", "--json"
    )
    return done, json.loads(done.stdout)


def no_duplicate(result: dict[str, Any]) -> dict[str, Any]:
    [check] = [check for check in result["checks"] if check["statement"] == "no duplicate"]
    return check


@pytest.mark.parametrize("words", [(), ("fresh",)])
def test_step_retried_whole_deviates(tmp_path: Path, shop: tuple[str, list[Any]], words: tuple[str]) -> None:
    url, orders = shop
    done, result = experiment(tmp_path, url, *words)
    assert (done.returncode, result["verdict"], len(orders)) == (1, "deviated", 12), done.stderr
    assert no_duplicate(result)["message"] == (
        "POST /orders of shop executed twice, but once in each of 3 control episodes"
    )
    logs = tmp_path / ".wirefault" / "logs"
    saved = load_saved(logs, result["experiment"], {"LOGS_DIR": str(logs)})
    method = summarise(saved.history_of(saved.plan.arms[1]).events)
    assert [finding.rule for finding in method.findings] == ["write_repeated"] * 3


def test_undeclared_write_deviates(tmp_path: Path, shop: tuple[str, list[Any]]) -> None:
    done, result = experiment(tmp_path, shop[0], declared=False)
    assert (done.returncode, result["verdict"]) == (1, "deviated"), done.stderr


def test_agent_ordering_twice_without_faults_is_not_accused(
    tmp_path: Path, shop: tuple[str, list[Any]]
) -> None:
    url, orders = shop
    done, result = experiment(tmp_path, url, "twice")
    assert (done.returncode, len(orders)) == (0, 18), done.stderr
    assert no_duplicate(result)["verdict"] == "held"


def test_listings_do_not_accuse_agent_ordering_twice_without_faults(
    tmp_path: Path, shop: tuple[str, list[Any]]
) -> None:
    url, orders = shop
    done, result = experiment(tmp_path, url, "between")
    assert (done.returncode, len(orders)) == (0, 18), done.stderr
    [_, method, _] = result["arms"]
    assert (method["measures"]["findings"]["estimate"], method["differences"]) == (0, [])
    environ = environ_in(tmp_path)
    listings = [
        ("show", "latest", "1", "--json"),
        ("show", method["run_ids"][0], "tea", "--json"),
        ("runs", "verify", method["run_ids"][0], "--json"),
        ("report", "latest", "--json"),
        ("compare", "latest", "latest", "--json"),
    ]
    for words in listings:
        listed = commands.wirefault(tmp_path, environ, *words)
        assert listed.returncode == 0 and "write_repeated" not in listed.stdout, words
    alone = commands.wirefault(tmp_path, environ, "runs", "verify", "latest")
    assert "write_repeated" not in alone.stdout


def test_findings_need_control_to_be_judged(tmp_path: Path, shop: tuple[str, list[Any]]) -> None:
    done, result = experiment(tmp_path, shop[0], "between", assertions="[{no_finding: write_repeated}]")
    assert done.returncode == 0, done.stderr
    [check] = [check for check in result["checks"] if "write_repeated" in check["statement"]]
    assert (check["verdict"], result["verdict"]) == ("held", "held")
    log = (tmp_path / ".wirefault" / "logs" / "info.log").read_text(encoding="utf-8").splitlines()
    summaries = {
        line["run_id"]: line["summary"] for line in map(json.loads, log) if line["event"] == "summary"
    }
    says = f"without the control, which may repeat a write as often: wirefault report {result['experiment']}"
    assert [
        says in " ".join(summaries[run_id]["remarks"]) for arm in result["arms"] for run_id in arm["run_ids"]
    ] == [
        False,
        True,
        False,
    ]


def test_run_listing_uses_outcome_against_control(tmp_path: Path, shop: tuple[str, list[Any]]) -> None:
    _, result = experiment(tmp_path, shop[0])
    environ, [run_id] = environ_in(tmp_path), result["arms"][1]["run_ids"]
    verified = json.loads(commands.wirefault(tmp_path, environ, "runs", "verify", run_id, "--json").stdout)
    assert verified["outcomes"] == {"duplicate": 3}
    timeline = json.loads(commands.wirefault(tmp_path, environ, "show", "latest", "1", "--json").stdout)
    assert (timeline["outcome"], [finding["rule"] for finding in timeline["findings"]]) == (
        "duplicate",
        ["write_repeated"],
    )


def test_unreported_order(tmp_path: Path, shop: tuple[str, list[Any]]) -> None:
    url, orders = shop
    done, result = experiment(tmp_path, url, "once")
    assert len(orders) == 9, done.stderr
    differences = {arm["arm"]: [finding["rule"] for finding in arm["differences"]] for arm in result["arms"]}
    assert differences == {"control": [], "method": ["done_but_not_told"] * 3, "control-after": []}
    [text] = {finding["text"] for arm in result["arms"] for finding in arm["differences"]}
    assert text == (
        "POST /orders of shop was executed once, as in the control, but it ended with exit code 1"
    )
