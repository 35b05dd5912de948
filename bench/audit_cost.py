"""Measure an audit: wall time, longest wait, processor time by process, and time to the first finding."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.findings.trials import PROMPT
from bench.findings.upstreams import scripted_model, shop_at

SUBJECT = Path(__file__).parent / "audit_subject.py"
_SAMPLE_S = 0.1
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_FINDINGS = ("HARM", "RISK", "WASTE")
_NAMES = {
    "wirefault.gateway": "gateway",
    "wirefault.gateway.intercept": "ingress",
    "wirefault.toxiproxy.embedded": "toxiproxy",
    "proxy_manager": "manager",
    "wirefault.model_server": "scripted model",
    "wirefault.lab.fork_server": "fork servers",
    "wirefault.cli.run_process": "runners",
}


@dataclass
class Sampler:
    """Samples the processor time of a process and of all below it, until they end."""

    root: int
    _ticks: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    _below: set[int] = field(default_factory=set)

    def watch(self, ended: threading.Event) -> None:
        self._below.add(self.root)
        while not ended.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        parents: dict[int, tuple[int, int, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has ended
                    continue
                parents[int(entry.name)] = (
                    int(fields[1]),
                    int(fields[11]) + int(fields[12]),
                    int(fields[19]),
                )
        for pid in sorted(parents):
            if parents[pid][0] in self._below:
                self._below.add(pid)
        for pid in self._below & parents.keys():
            _, ticks, start = parents[pid]
            name, _ = self._ticks.get((pid, start), ("agents", 0))
            # a fork gets its own words a little later; a process that has ended has none
            if name in ("agents", "fork servers"):
                known = _name_of(pid, self.root)
                name = known if known != "agents" else name
            self._ticks[pid, start] = (name, ticks)

    def seconds(self) -> dict[str, float]:
        """Return the sampled seconds by kind of process; those of short processes are too small."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for name, ticks in self._ticks.values():
            seconds[name] += ticks * _TICK_S
        return dict(seconds)


def _name_of(pid: int, root: int) -> str:
    if pid == root:
        return "launcher"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "agents"
    if not any(word.endswith("program.py") for word in words):
        return "agents"
    module = next((word for word in words if word in _NAMES or word.startswith("wirefault.")), "")
    return _NAMES.get(module, module or "agents")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def clean_cpu_s(command: list[str], model_url: str) -> float:
    """Return the processor time of the command alone, the median of three runs."""
    times = []
    for _ in range(3):
        before = _children_s()
        environ = {**os.environ, "OPENAI_BASE_URL": f"{model_url}/v1"}
        subprocess.run(command, env=environ, check=True, capture_output=True)
        times.append(_children_s() - before)
    return median(times)


def measure() -> dict[str, Any]:
    """Audit the subject with the usual questions; return the figures, in seconds."""
    with tempfile.TemporaryDirectory() as place, shop_at(Path(place) / "shop.db") as shop:
        command = [sys.executable, str(SUBJECT), shop.url, PROMPT]
        with scripted_model() as model:
            clean = clean_cpu_s(command, model.url)
        load, before, began = os.getloadavg()[0], _children_s(), time.monotonic()
        file = Path(place) / "audit.json"
        words = [sys.executable, "-u", "-m", "wirefault", "audit", "--scripted", f"--json={file}"]
        first, ended = 0.0, threading.Event()
        with subprocess.Popen(
            [*words, f"--out={place}", "--", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            sampler = Sampler(process.pid)
            watcher = threading.Thread(target=sampler.watch, args=(ended,))
            watcher.start()
            assert process.stdout is not None
            for line in process.stdout:
                if not first and line.startswith(_FINDINGS):
                    first = time.monotonic() - began
        wall = time.monotonic() - began
        ended.set()
        watcher.join()
        total, by_process = _children_s() - before, sampler.seconds()
        result = json.loads(file.read_text())
    lab = sum(seconds for name, seconds in by_process.items() if name != "agents")
    runs = [run["seconds"] for answer in result["answers"] for run in answer["runs"]]
    wait = max(result["patience_s"], max(runs))
    cores = os.cpu_count() or 1
    return {
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "cores": cores,
        "runs": result["runs"],
        "findings": sum(answer["status"] == "finding" for answer in result["answers"]),
        "unknown": sum(answer["status"] == "unknown" for answer in result["answers"]),
        "wall": wall,
        "first_finding": first,
        "longest_wait": wait,
        "clean_cpu": clean,
        "aim": wait + 1.5 * result["runs"] * clean / cores,
        "cpu": total,
        "cpu_by_process": {**by_process, "agents": max(total - lab, 0.0)},
    }


def print_cost(figures: dict[str, Any]) -> None:
    """Print the figures, with the machine's load, without which they mean nothing."""
    print(
        f"{figures['runs']} runs, {figures['findings']} findings, {figures['unknown']} unknown;"
        f" load {figures['load_before']:.1f} before, {figures['load_after']:.1f} after,"
        f" on {figures['cores']} processors"
    )
    print(f"wall time {figures['wall']:.1f} s, aim {figures['aim']:.1f} s: longest wait")
    print(
        f"  {figures['longest_wait']:.1f} s + 1.5 x {figures['runs']} runs x {figures['clean_cpu']:.2f} s"
        f" / {figures['cores']}"
    )
    print(f"first finding after {figures['first_finding']:.1f} s, aim 20 s")
    print(f"processor time {figures['cpu']:.1f} s:")
    for name, seconds in sorted(figures["cpu_by_process"].items(), key=lambda item: -item[1]):
        print(f"  {name:<16}{seconds:6.1f} s")
