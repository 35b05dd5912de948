"""One framework flown under one trial: a lab of its own, a shop of its own, and what both wrote down."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server

from bench.findings.environments import EXAMPLES, ROOT, InstalledAgent
from bench.findings.observed import Observed, observe
from bench.findings.trials import BOUND_S, PROMPT, Trial
from windtunnel.history.reader import read_run

_PATIENCE_S = BOUND_S + 120


class NotFlown(Exception):
    """The lab did not fly it; the message says why."""


@contextmanager
def shop_of(database: Path) -> Iterator[str]:
    """The examples' shop on loopback, which keeps its orders in that file; its address."""
    spec = spec_from_file_location("shop", ROOT / "examples" / "shop" / "shop.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # a client that leaves is what is tried
    server = make_server("127.0.0.1", 0, module.create_app(str(database)), threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fly(agent: InstalledAgent, trial: Trial, folder: Path) -> Observed:
    """Flies it once in that folder, unless it was flown there. Raises ``NotFlown``."""
    database, kept = folder / "shop.db", folder / "summary.json"
    if not kept.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with shop_of(database) as shop:
            kept.write_text(json.dumps(_flown(agent, trial, folder, shop)))
    summary = json.loads(kept.read_text())
    [episode] = summary["episodes"]
    delivered = [fault["kind"] for fault in episode["faults"] if fault["delivered"]]
    with closing(sqlite3.connect(database)) as opened:
        [[orders]] = opened.execute("SELECT COUNT(*) FROM orders")
    complaints = [
        file.read_text(errors="replace") for file in folder.glob("logs/runs/*/attempts/*/stderr.txt")
    ]
    return observe(read_run(folder / "logs", summary["run_id"]), orders, delivered, "\n".join(complaints))


def _flown(agent: InstalledAgent, trial: Trial, folder: Path, shop: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "windtunnel", "fly", "--wiring", str(EXAMPLES / "windtunnel.yaml")]
    command += ["--link", f"shop={shop}", "--prompt", PROMPT, "--out", str(folder), "--json", "--no-charts"]
    command += ["--toxiproxy", "embedded", *trial.words, "--", *agent.command, "{prompt}"]
    environ = {**os.environ, "PATH": agent.path, "OPENAI_API_KEY": "none-needed"}
    environ["PERSONA"] = trial.persona
    environ["PLAYBOOKS"] = str(EXAMPLES / "playbooks.yaml")
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise NotFlown(f"{agent.name}, {trial.name}: no end after {_PATIENCE_S} s") from None
    try:
        summary: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise NotFlown(f"{agent.name}, {trial.name}: exit code {done.returncode}: {said}") from None
    if summary["episodes"][0]["outcome"] == "invalid":
        raise NotFlown(f"{agent.name}, {trial.name}: invalid, {summary['episodes'][0].get('why')}")
    return summary
