"""The shop's books against verdicts and findings: the wire shows what is in the shop's database."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.examples.running import run_wiring
from tests.examples.serving import EXAMPLES, shop
from tests.support import PATIENCE_S, free_port

pytestmark = pytest.mark.slow

WIRING = EXAMPLES / "shop" / "wirefault.yaml"
ITEMS = ("green tea", "teapot", "honey")


def prompts(folder: Path, episodes: int) -> Path:
    """Each order many times, by ids; other episodes have no oracle."""
    entries: list[dict[str, Any]] = []
    for number in range(episodes):
        item, count = ITEMS[number % 3], number % 4 + 1
        request = {
            "link": "shop",
            "method": "POST",
            "path": "/orders",
            "json": {"item": item, "count": count},
        }
        entries.append({"id": f"order-{number}", "prompt": f'Order {count} "{item}"'})
        if number % 2:
            entries[-1]["expect"] = {"requests": [request]}
    file = folder / "prompts.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    return file


def run_shop(folder: Path, episodes: int, idempotency: str) -> tuple[dict[str, str], Counter[str], set[str]]:
    """The outcome of each episode under lost replies, the rows that it left in the shop's database, and the
    episodes with a write that was certainly repeated.
    """
    database = folder / "shop.db"
    with shop(database) as upstream:
        words = ["--link", f"shop={upstream.url}", "--prompts", str(prompts(folder, episodes))]
        words += ["--faults", "lost-replies", "--toxic-prob", "0", "--error-prob", "0", "--seed", "5"]
        summary = run_wiring(folder, WIRING, *words, environ={"ORDER_KEY": idempotency})
    with closing(sqlite3.connect(database)) as connection:
        rows = Counter(customer for (customer,) in connection.execute("SELECT customer FROM orders"))
    outcomes = {episode["episode"]: episode["outcome"] for episode in summary["episodes"]}
    assert len(outcomes) == episodes and rows.keys() <= outcomes.keys()
    lost = [fault for each in summary["episodes"] for fault in each["faults"] if fault["delivered"]]
    assert len(lost) >= episodes / 3
    repeated = {
        finding["episode"]
        for finding in summary["findings"]
        if finding["rule"] == "write_repeated" and "both were executed" in finding["text"]
    }
    return outcomes, rows, repeated


def test_wire_duplicates_match_database(tmp_path: Path) -> None:
    outcomes, rows, repeated = run_shop(tmp_path, 100, "none")
    twice = {episode for episode in outcomes if rows[episode] > 1}
    assert repeated == twice and 20 < len(twice) < 80
    # the oracle is evidence, and the wire alone is none: the repetition may have been intended
    with_oracle = {episode for episode in twice if int(episode.removeprefix("order-")) % 2}
    assert {episode for episode, outcome in outcomes.items() if outcome == "duplicate"} == with_oracle


@pytest.mark.parametrize("idempotency", ["header", "field"])
def test_idempotency_keys_prevent_findings(tmp_path: Path, idempotency: str) -> None:
    outcomes, rows, repeated = run_shop(tmp_path, 30, idempotency)
    assert set(rows.values()) == {1} and not repeated
    assert "duplicate" not in outcomes.values()


def test_shop_in_background_answers_at_once_and_refuses_taken_port(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, str(EXAMPLES / "shop" / "shop.py"), "--background", str(port)]
    with (tmp_path / "output").open("w+", encoding="utf-8") as output:
        assert subprocess.run(command, cwd=tmp_path, stdout=output, stderr=output).returncode == 0
        output.seek(0)
        process = int(re.search(r"kill (\d+)", output.read())[1])
    try:
        assert requests.get(f"http://127.0.0.1:{port}/orders", timeout=PATIENCE_S).json() == []
        again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    finally:
        os.kill(process, signal.SIGKILL)
    assert again.returncode == 1
    assert again.stderr.startswith(f"port {port}: Address already in use. Stop the program that has it")
