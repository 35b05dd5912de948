"""Update checks of runtimes are passed: if one fails, neither the agent failed nor did it bypass the lab."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.test_exec import Ran
from tests.examples.serving import shop
from wirefault.gateway.intercept.policy import BACKGROUND_HOSTS

pytestmark = pytest.mark.slow

CHECKS = ("dl.deno.land", "bun.sh", "bun.com", "registry.npmjs." + "org")
AGENT = """
import json, sys, urllib.request
shop, *hosts = sys.argv[1:]
for host in hosts:
    for scheme in ("https", "http"):
        try:
            urllib.request.urlopen(f"{scheme}://{host}/latest", timeout=5).read()
        except OSError:
            pass
body = json.dumps({"item": "honey", "count": 1, "customer": "Ann"}).encode()
order = urllib.request.Request(shop + "/orders", body, {"Content-Type": "application/json"})
with urllib.request.urlopen(order, timeout=30) as reply:
    print("ordered:", reply.status, reply.read())
"""


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_failed_update_check_changes_nothing(
    tmp_path: Path, tap: str, request: pytest.FixtureRequest
) -> None:
    if tap == "namespace":
        request.getfixturevalue("namespaces")
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    faults = json.dumps({"faults": [{"fault": "delay", "links": "tools"}]})
    with shop(tmp_path / "shop.db") as record:
        command = [sys.executable, "agent.py", record.url, *CHECKS]
        report = tmp_path / "report.json"
        ran = Ran(tmp_path, "--tap", tap, "--faults", faults, "--json", str(report), "--", *command)
    assert report.exists(), ran.stderr
    summary = json.loads(report.read_text(encoding="utf-8"))
    assert (ran.code, "ordered: 201" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    assert (summary["outcomes"], summary["findings"], summary["went_past"]) == ({"unjudged": 1}, [], [])
    assert [(row["eligible"], row["injected"]) for row in summary["faults"]] == [(1, 1)]
    assert summary["unexplained"] == 0
    [link] = [link["name"] for link in summary["links"]]
    assert link.startswith("port_")


def test_each_runtime_has_its_host() -> None:
    assert set(CHECKS[:3]) <= set(BACKGROUND_HOSTS)
