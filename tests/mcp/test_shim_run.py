"""A run of a subject that starts its MCP server itself, from the variable that leads through the lab."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.mcp.shim_lab import SERVER
from wirefault.history.events import Exchange
from wirefault.history.reader import read_file

pytestmark = pytest.mark.slow

CLIENT = [sys.executable, str(Path(__file__).with_name("plain_client.py"))]


@pytest.mark.parametrize("intercept", [False, True])
def test_subject_meets_faults_on_stdio(tmp_path: Path, intercept: bool):
    wiring = {
        "links": {"files": {"mcp": {"command": SERVER}}},
        "subject": {"command": [*CLIENT, "{prompt}"]},
        **({"intercept": {}} if intercept else {}),
    }
    (tmp_path / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
    faults = json.dumps({"faults": [{"id": "f", "fault": "tool_error", "links": "files"}]})
    calm = ("--toxic-prob=0", "--error-prob=0", "--toxiproxy=embedded", "--no-charts")
    run = wirefault(tmp_path, os.environ, "run", "--prompt=hello", f"--faults={faults}", *calm)
    [history] = (tmp_path / ".wirefault" / "logs" / "runs").glob("*/gateway-0.jsonl")
    exchanges = [event for event in read_file(history) if isinstance(event, Exchange)]
    assert [exchange.message for exchange in exchanges] == ["initialize", "tools/call"], run.stderr
    assert [fault.injected for fault in exchanges[1].faults] == [True]
    [answer] = (tmp_path / ".wirefault" / "logs" / "runs").glob("*/attempts/*/stdout.txt")
    assert json.loads(answer.read_text(encoding="utf-8"))["isError"] is True
