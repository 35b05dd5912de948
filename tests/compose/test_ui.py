"""The service ``ui``: pages of the runs and the lab's live state, read-only."""

from __future__ import annotations

import json

import pytest
import requests

from tests.compose.engine import PATIENCE_S
from tests.compose.rig import Lab

pytestmark = pytest.mark.compose
TOKEN = "/run/wirefault/token"


def get(url: str, **more: object) -> requests.Response:
    return requests.get(url, timeout=PATIENCE_S, **more)


def test_run_ends_with_its_page_here_and_at_ui(lab: Lab) -> None:
    log = lab.compose("run --rm -T -e TOXIC_PROB=0 -e SEED=1 agent").splitlines()
    run = lab.runs()[-1]
    assert f"page: logs/pages/{run}/page.html" in log
    page = (lab.logs / "pages" / run / "page.html").read_text(encoding="utf-8")
    assert '<h2 id="findings-h">' in page
    at_ui = next(line for line in log if line.startswith("  or: http://"))
    address = lab.play(f"echo {at_ui.removeprefix('  or: ')}").stdout.strip()
    assert address == f"{lab.ui().url}/runs/{run}"
    assert '<h2 id="findings-h">' in get(address).text


def test_ui_lists_runs_and_shows_lab_live(lab: Lab) -> None:
    url = lab.ui().url
    assert all(f'href="/runs/{run}"' in get(url).text for run in lab.runs())
    with requests.get(f"{url}/lab/changes", stream=True, timeout=60) as stream:
        updates = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith(b"data: "))
        idle = next(updates)
        assert "proxies:6001" in idle and "/openai/v1/chat/completions" in idle and "latency" not in idle
        lab.compose("run --rm -d -e TOXIC_PROB=1 -e TOXICS=latency:5000 -e TOOL_TIMEOUT=20 agent")
        assert any("latency 5000" in html for html in updates)
    lab.healed()


def test_ui_has_no_token_and_cannot_write(lab: Lab) -> None:
    secret = lab.python("proxy_mgr", f"print(open('{TOKEN}').read())")
    code = (
        "import os; print(os.path.exists('/run/wirefault'), os.path.exists('/app/state/state.db'))\n"
        "try: open('/app/logs/new', 'w')\n"
        "except OSError as error: print(error.strerror)"
    )
    assert lab.python("ui", code).splitlines() == ["False False", "Read-only file system"]
    pages = [get(lab.ui().url + path) for path in ("/", "/lab", "/status")]
    assert all(page.status_code == 200 and secret not in page.text for page in pages)
    assert requests.put(f"{lab.ui().url}/faults", timeout=PATIENCE_S).status_code == 405
