"""Commands that report themselves that no try got through: the network's failures, in ``agent.log``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.test_exec import Ran
from tests.upstream import FREE, Upstream, read_all
from wirefault.core.sockets import bind, bound_address
from wirefault.gateway.intercept.certificate_authority import Authority

pytestmark = pytest.mark.slow

REPORTS = """
import json, sys, urllib.request
for _ in range(2):
    try:
        urllib.request.urlopen(sys.argv[1], timeout=0.5).read()
    except OSError as error:
        report = {"status": "failed", "answer": f"the shop cannot be reached: {error}"}
print(json.dumps(report))
"""


def test_unreachable_servers_are_network_failures(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(REPORTS, encoding="utf-8")
    with bind(FREE) as closed:
        refused = f"http://{bound_address(closed)}/"
    of_server = Authority(lambda: datetime.now(UTC))

    def speak_tls(connection) -> None:
        of_server.context("127.0.0.1").wrap_socket(connection, server_side=True)

    with Upstream(speak_tls) as untrusted, Upstream(read_all) as silent:
        urls = [refused, f"https://{untrusted.address}/", f"http://{silent.address}/"]
        prompts = [word for url in urls for word in ("--prompt", url)]
        ran = Ran(tmp_path, *prompts, "--tap", "proxy", "--", sys.executable, "agent.py", "{prompt}")
    lines = (ran.out / "logs" / "agent.log").read_text(encoding="utf-8").splitlines()
    attempts = [json.loads(line) for line in lines]
    assert [(attempt["prompt"], attempt["status"]) for attempt in attempts] == [
        (url, "failed") for url in urls
    ], ran.stderr
    assert [attempt["error_class"] for attempt in attempts] == ["network"] * 3
