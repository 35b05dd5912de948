"""Make the README's picture of a page: a framework on its defaults that orders twice after a lost reply.

``python -m bench.findings.page_picture`` needs the environments of ``bench.findings.environments``, port 9000
and Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.findings.environments import EXAMPLES, ROOT, agents
from bench.findings.trials import PROMPT
from bench.findings.upstreams import shop_at

AGENT, PORT, BOUND_S = "openai_agents", 9000, 120
PICTURE = ROOT / "docs" / "pictures" / "page.png"
SIZE = {"width": 1100, "height": 1360}
LOST = {"faults": [{"fault": "lose_reply", "only": {"path": "/orders"}, "when": {"first": 1, "of": "try"}}]}
WIRING = f"""
links:
  model: {{upstream: scripted, dialect: openai_responses, env: OPENAI_BASE_URL}}
  shop: {{upstream: "http://127.0.0.1:{PORT}", hosts: ["127.0.0.1:{PORT}"], writes: [POST /orders]}}
intercept: {{models: scripted}}
subject: {{command: [python, agent.py, "{{prompt}}"]}}
"""


def record_page(folder: Path) -> Path:
    """Run the example in that folder; return the page of the run."""
    agent = next(each for each in agents() if each.name == AGENT)
    shutil.copy(EXAMPLES / AGENT / "agent.py", folder)
    shutil.copy(EXAMPLES / "playbooks.yaml", folder)
    (folder / "wirefault.yaml").write_text(WIRING, encoding="utf-8")
    environ = {**os.environ, "PATH": agent.path, "PLAYBOOKS": "playbooks.yaml"}
    start = [sys.executable, "-m", "wirefault", "run", "wirefault.yaml", "--persona=stubborn", "--seed=1"]
    command = [*start, f"--faults={json.dumps(LOST)}", f"--prompt={PROMPT}"]
    with shop_at(folder / "shop.db", PORT) as shop:
        done = subprocess.run(
            command, cwd=folder, env=environ, timeout=BOUND_S, capture_output=True, text=True
        )
        orders = shop.requests.count(("POST", "/orders"))
    if orders != 2:
        raise SystemExit(f"{AGENT} ordered {orders} times, not twice:\n{done.stdout}{done.stderr}")
    [page] = folder.rglob("page.html")
    return page


def draw(page: Path) -> None:
    """Draw the finding and its episode, without the figures between them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        tab.goto(f"{page.as_uri()}#ep/1")
        tab.wait_for_selector('[id="ep/1"][open]')
        tab.evaluate(
            "for (const id of ['figures', 'filters']) document.getElementById(id).hidden = true;"
            " document.activeElement.blur(); window.scrollTo(0, 0)"
        )
        tab.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        draw(record_page(Path(place)))
