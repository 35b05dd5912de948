"""An experiment whose parts are killed and which then resumes to the undisturbed result.

``WIREFAULT_KILLS=20`` kills each part 20 times; ``WIREFAULT_KILLS_SEED`` draws other moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli_process import CliProcess
from tests.e2e.test_experiments import start_wirefault, wirefault
from tests.experiments.fates import fates
from tests.support import RUN_PATIENCE_S, only_where_required
from wirefault.experiments.saved import load_saved
from wirefault.history.events import EpisodeJudged

# in small, tests/e2e/test_experiments.py and tests/lab/test_ends.py
pytestmark = [pytest.mark.slow, only_where_required("kills")]

KILLS = int(os.environ.get("WIREFAULT_KILLS", "1"))
SEED = int(os.environ.get("WIREFAULT_KILLS_SEED", "1"))
EXPERIMENT = {
    "title": "It is killed",
    "only": ["1", "2", "14", "17"],
    "repeats": 2,
    "seed": 7,
    # generous, so that a busy machine causes no time limit
    "settings": {"tool_timeout": 20, "model_timeout": 60, "attempt_time": 300, "arm_timeout": 60},
    "method": {
        "faults": {
            "faults": [{"fault": "lose_reply", "links": "writes", "when": {"probability": 0.5}}],
            "toxics": [{"toxic": "latency", "links": "tools", "with": {"latency": 300}}],
        }
    },
    "hypothesis": ["no duplicate"],
}
RUN = ["run", "exp.json", "--toxiproxy", "embedded", "--workers", "2"]
RESUME = ["run", "--resume", "latest", "--toxiproxy", "embedded", "--workers", "2"]
PARTS = {
    "worker": b"wirefault.cli.run_process\0",
    "gateway": b"wirefault.gateway\0",
    "manager": b"proxy_manager\0",
}


@dataclass(frozen=True)
class Undisturbed:
    """The undisturbed experiment, and its duration in seconds."""

    fates: dict[tuple[str, str], Any]
    verdict: str
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "exp.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    began = time.monotonic()
    done = wirefault(folder, *RUN, "--json")
    document = json.loads(done.stdout)
    took = time.monotonic() - began
    return Undisturbed(
        fates(folder / ".wirefault" / "logs", document["experiment"]), document["verdict"], took
    )


def children(launcher: int, part: str) -> list[int]:
    """The launcher's processes of that part."""
    executed = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher and PARTS[part] in (entry / "cmdline").read_bytes():
                executed.append(int(entry.name))
        except (OSError, ValueError):  # it has already ended
            continue
    return sorted(executed)


def kill_at(process: CliProcess, part: str, moment: float, chance: random.Random) -> bool:
    """Kill the part this many seconds after the start, or when it first appears; False if it never does."""
    deadline = time.monotonic() + moment
    while process.poll() is None:
        if time.monotonic() >= deadline:
            victims = [process.pid] if part == "runner" else children(process.pid, part)
            if victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def disturbed(folder: Path, parts: list[str], chance: random.Random, seconds: float) -> list[str]:
    """Run in that folder to the end through these kills; return the parts that were not killed.

    Each run continues where the last one was killed.
    """
    folder.mkdir()
    (folder / "exp.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    while parts:
        words = RESUME if has_plan(folder) else RUN
        with start_wirefault(folder, *words) as process:
            killed = kill_at(process, parts[0], chance.uniform(0.0, seconds), chance)
            process.wait(RUN_PATIENCE_S)
        if killed and has_plan(folder):
            parts = parts[1:]
        if not killed:
            break
    for _ in range(3):
        if wirefault(folder, "report", "latest").returncode in (0, 1):
            break
        wirefault(folder, *(RESUME if has_plan(folder) else RUN))
    return parts


def has_plan(folder: Path) -> bool:
    """Else it was killed before anything was planned: there is nothing to resume."""
    return any(folder.glob(".wirefault/logs/experiments/*/plan.json"))


def test_killed_experiment_resumes_to_same_result(tmp_path: Path, undisturbed: Undisturbed) -> None:
    chance = random.Random(SEED)
    parts = KILLS * ["runner", *PARTS]
    chance.shuffle(parts)
    for number in range(20 * KILLS):
        folder = tmp_path / str(number)
        parts = disturbed(folder, parts, chance, undisturbed.seconds / 2)
        [experiment] = (path.name for path in folder.glob(".wirefault/logs/experiments/*"))
        assert verdict(folder) == undisturbed.verdict, folder
        assert fates(folder / ".wirefault" / "logs", experiment) == undisturbed.fates, folder
        assert set(judged(folder / ".wirefault" / "logs", experiment).values()) == {1}, folder
        if not parts:
            return
    raise AssertionError(f"no run was hit by the kills of {parts}")


def verdict(folder: Path) -> str:
    return str(json.loads(wirefault(folder, "report", "latest", "--json").stdout)["verdict"])


def judged(logs: Path, experiment: str) -> Counter[tuple[str, str]]:
    """How many verdicts each episode of each arm has in the history that counts."""
    saved = load_saved(logs, experiment, {"LOGS_DIR": str(logs)})
    return Counter(
        (arm.name, event.episode)
        for arm in saved.plan.arms
        for event in saved.history_of(arm).events
        if isinstance(event, EpisodeJudged)
    )
