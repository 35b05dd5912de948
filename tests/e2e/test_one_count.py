"""One prompt, one lost reply, an SDK that sends the request again once: each place has that one count."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask import Flask

from tests import commands
from tests.lab.demos import environ_in
from tests.upstream import serving
from wirefault.history.events import Event
from wirefault.history.reader import read_run
from wirefault.judging.charted import run_data
from wirefault.judging.metrics import metrics_of
from wirefault.judging.usage import calls_by_link

pytestmark = pytest.mark.slow

AGENT = """
import os, urllib.request

def order(count):
    headers = {"Content-Type": "application/json", "x-stainless-retry-count": count}
    url = os.environ["SHOP_URL"] + "/orders"
    urllib.request.urlopen(urllib.request.Request(url, b'{"item": "tea"}', headers), timeout=30).read()

try:
    order("0")
except OSError:
    order("1")
print("done: tea was ordered")
"""
EXPERIMENT = """
title: A reply lost once
prompts: [{id: tea, prompt: Order tea, expect: {answer: {contains: done}}}]
wiring: wirefault.yaml
method:
  faults: {faults: [{fault: lose_reply, links: shop, when: {at_most: 1}}]}
hypothesis: [amplification <= 3]
"""
WIRING = """
links: {{shop: {{upstream: "{url}", env: SHOP_URL, writes: [POST /orders]}}}}
subject: {{command: [{python}, agent.py, "{{prompt}}"], answer: stdout}}
"""
BY_SDK = r"sent again: (\d+) by the client's SDK"


@dataclass(frozen=True)
class Recorded:
    """The experiment's folder, and the events of its arm with the fault."""

    folder: Path
    run: str
    events: Sequence[Event]

    def printed(self, *words: str) -> str:
        """A command's output without line breaks."""
        done = commands.wirefault(self.folder, environ_in(self.folder), *words)
        return " ".join(done.stdout.split())

    def report(self, option: str) -> str:
        self.printed("report", "latest", option, "report.txt")
        return (self.folder / "report.txt").read_text().replace("&#39;", "'")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder, app = tmp_path_factory.mktemp("shop"), Flask("shop")
    app.post("/orders")(lambda: ({"ordered": 1}, 201))
    (folder / "agent.py").write_text(AGENT)
    (folder / "x.yaml").write_text(EXPERIMENT)
    with serving(app) as address:
        (folder / "wirefault.yaml").write_text(WIRING.format(url=address.url, python=sys.executable))
        words = "run", "x.yaml", "--toxiproxy", "embedded", "--json"
        result = json.loads(commands.wirefault(folder, environ_in(folder), *words).stdout)
    [run] = [run for arm in result["arms"] if arm["arm"] == "method" for run in arm["run_ids"]]
    return Recorded(folder, run, list(read_run(folder / ".wirefault" / "logs", run)))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param(lambda on: on.printed("report", "latest"), BY_SDK, id="console"),
        pytest.param(lambda on: on.printed("report", "latest", "--json"), BY_SDK, id="json"),
        pytest.param(lambda on: on.report("--junit"), BY_SDK, id="junit"),
        pytest.param(lambda on: on.report("--md"), BY_SDK, id="markdown"),
        pytest.param(lambda on: on.report("--html"), BY_SDK, id="page, statement"),
        pytest.param(lambda on: on.report("--html"), r'/again/SDK">(\d+)<', id="page, link"),
        pytest.param(lambda on: on.printed("runs", "trend", "--json"), BY_SDK, id="trend"),
        pytest.param(
            lambda on: str(on.printed("show", on.run).count("was sent again")), r"(\d+)", id="show, finding"
        ),
        pytest.param(
            lambda on: on.printed("memory", "rebuild") + on.printed("memory", "show", "shop"),
            r"(\d+) of 1 outages? recovered",
            id="memory",
        ),
        pytest.param(lambda on: str(metrics_of(on.events, "tea").retries), r"(\d+)", id="metrics"),
        pytest.param(lambda on: str(calls_by_link(on.events)[0].retried), r"(\d+)", id="table of exec"),
        pytest.param(
            lambda on: str([bool(tried.error) for tried in run_data(on.events).tries].count(True)),
            r"(\d+)",
            id="charts",
        ),
    ],
)
def test_places_agree(recorded: Recorded, text: Callable[[Recorded], str], pattern: str) -> None:
    assert set(re.findall(pattern, text(recorded))) == {"1"}
