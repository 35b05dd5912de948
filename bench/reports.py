"""Cost of a large arm's figures: computed from its histories, and read from the cache."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from wirefault.experiments.arms import put_together
from wirefault.experiments.facts_store import FactsStore
from wirefault.experiments.figures import measures_of


def measure_reports(logs: Path, episodes: int = 10_000) -> dict[str, Any]:
    """Measure an arm of at least ``episodes`` episodes: copies of existing runs under other names."""
    runs = sorted((logs / "runs").iterdir())
    copies, each = [], 0
    while each * len(copies) < episodes:
        for run in runs:
            copies.append(f"copy-{len(copies)}")
            each = max(each, _copy(run, run.with_name(copies[-1])))
    figures: dict[str, Any] = {}
    for kind in ("worked_out", "kept"):
        began = time.perf_counter()
        store = FactsStore(logs, logs / "facts", trusted=True)
        arm = put_together([store.read(run, ()) for run in copies], episodes)
        measures_of(arm)
        took = time.perf_counter() - began
        store.write()  # which the second pass reads
        figures |= {"episodes": len(arm.episodes), f"{kind}_ms": round(1000 * took / len(arm.episodes), 3)}
    return figures


def _copy(run: Path, copy: Path) -> int:
    """Copy a run and rename its episodes; return their number."""
    copy.mkdir()
    keys = set()
    for file in run.glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if line.get("episode"):
                keys.add(line["episode"])
                line["episode"] += f" of {copy.name}"
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (copy / file.name).write_text(text, encoding="utf-8")
    return len(keys)
