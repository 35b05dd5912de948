"""The commands of docs/conversation-lab.md, as printed."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from bench.conversations import server
from tests.support import ROOT

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "conversation-lab.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines()
    if not line.startswith(("pip", "wirefault", "docker"))
]


def test_curl_lines_run_as_printed(tmp_path: Path) -> None:
    with server(tmp_path, {}) as call:
        port = call("GET", "/health", None).url.split(":")[2].split("/")[0]
        script = "\n".join(f"{line}{'; echo' * line.startswith('curl')}" for line in LINES)
        script = script.replace(":8010/", f":{port}/")
        done = subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == "" and [each for each in replies if "error" in each] == []
    failed, recovered, history, analytics, status, tried, reset, scenario, scenarios = replies
    assert (failed["status"], failed["failure_injection_applied"]) == ("failure", True)
    assert failed["response"] != failed["natural_response"]
    assert (recovered["status"], recovered["metadata"]["recovered"]) == ("success", True)
    assert len(history["interactions"]) == analytics["total_interactions"] == 2
    assert status["components"]["redis"] == "not used"
    assert tried["response"]["failure_mode"] == "off_topic" and reset["message"]
    assert scenarios == [scenario]
