"""Speed of the lab: until it is ready, until an attempt is armed, and for the sample prompts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from wirefault.core.identity import new_run_id
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.manager_client import ManagerClient
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import Settings
from wirefault.state.state import State
from wirefault.stats.rates import percentile
from wirefault.toxiproxy.planned import plan_toxics
from wirefault.wiring.links import lab_links

ATTEMPTS = 600
STARTS = 5


def in_folder(folder: Path) -> Configuration:
    places = {
        "STATE_DB": str(folder / "state" / "state.db"),
        "EFFECTS_DB": str(folder / "state" / "effects.db"),
        "LOGS_DIR": str(folder / "logs"),
    }
    return load_configuration({**os.environ, **places})


def ready_s(configuration: Configuration, choice: Choice) -> list[float]:
    """Return the seconds until a new lab is ready, of ``STARTS`` starts, sorted."""
    times = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with Lab(configuration, choice):
            times.append(time.perf_counter() - start)
    return sorted(times)


def arming_ms(configuration: Configuration, choice: Choice, toxic_prob: float) -> dict[str, Any]:
    """Measure the milliseconds from an attempt's request to its acknowledgement, in ``ATTEMPTS`` attempts."""
    settings = Settings(seed=1, toxic_prob=toxic_prob)
    times: list[float] = []
    with Lab(configuration, choice) as lab:
        control = ManagerClient(lambda: State(configuration.state), time.time, time.sleep)
        control.lease(new_run_id(), lab.topology.lab_id, 0, settings, lambda _: None)
        for number in range(ATTEMPTS):
            episode = f"{number:04d}"
            plan = plan_toxics(
                settings.seed, toxic_prob, settings.toxic_specs, lab_links().tool_names, episode, 1
            )
            armed = control.arm(episode, 1, plan, settings.arm_timeout)
            if armed.arming_ms is not None:
                times.append(armed.arming_ms)
            control.finish(armed.attempt_id, settings)
        control.release()
        control.close()
    return {
        "toxic_prob": toxic_prob,
        "p50": percentile(times, 50),
        "p99": percentile(times, 99),
        "n": len(times),
        "not_armed": ATTEMPTS - len(times),
    }


def sample_run_s(folder: Path, prompts: int = 24) -> dict[str, Any]:
    """Measure the seconds of a run of ``prompts`` sample prompts without faults."""
    file = folder / "prompts.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    samples = json.loads(Path("agent/prompts.json").read_text(encoding="utf-8"))[:prompts]
    file.write_text(json.dumps(samples), encoding="utf-8")
    command = [sys.executable, "-m", "wirefault", "demo", "--json", "--no-charts", "--toxic-prob", "0"]
    command += ["--error-prob", "0", "--seed", "1", "--out", str(folder), "--prompts", str(file)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    return {
        "prompts": len(summary["episodes"]),
        "run_s": summary["duration_s"],
        "command_s": time.perf_counter() - start,
    }
