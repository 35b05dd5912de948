"""Run every example under every trial and write docs/findings.md: ``python -m bench.findings``."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.findings.environments import EXAMPLES, ROOT, InstalledAgent, agents, prepare_all
from bench.findings.example_lab import ExampleLab, example_lab
from bench.findings.observed import Behaviour, Observed, behaviours, merged, observe
from bench.findings.page import page
from bench.findings.trials import PROMPT, SEEDS, TRIALS, Trial
from bench.measured import read_cells, write_cells

Cells = Mapping[str, Sequence[Mapping[str, Any]]]
"""The behaviours of an example as JSON, by trial."""
PAGE = ROOT / "docs" / "findings.md"
MEASURED = Path(__file__).with_name("measured.json")
# a run mostly waits for timeouts, but with more at once the machine would distort the figures
_AT_ONCE = 4


def main() -> int:
    """Return 0 if every chosen example ran under every trial, with each seed."""
    parser = ArgumentParser("python -m bench.findings", description=__doc__)
    parser.add_argument("--only", default="", help="measure only these examples (comma-separated)")
    parser.add_argument("--missing", action="store_true", help="run only the seeds after those measured")
    parser.add_argument("--page", action="store_true", help="write the page from the last measurement")
    parser.add_argument(
        "--at-once", type=int, default=_AT_ONCE, help=f"number of examples at once; default {_AT_ONCE}"
    )
    options = parser.parse_args()
    missing = {} if options.page else prepare_all()
    chosen = [] if options.page else _chosen(options.only.split(","), missing)
    measured = read_cells(MEASURED)
    with (
        tempfile.TemporaryDirectory(prefix="findings-") as folder,
        ProcessPoolExecutor(options.at_once) as pool,
    ):
        before = measured if options.missing else {}
        running = {
            pool.submit(_run_all, agent, Path(folder), before.get(agent.name, {})): agent.name
            for agent in chosen
        }
        for future in as_completed(running):
            measured[running[future]] = future.result()
            write_cells(MEASURED, dict(sorted(measured.items())))
    PAGE.write_text(page_text(), encoding="utf-8")
    for name, reason in sorted(missing.items()):
        print(f"examples/frameworks/{name} cannot run here: {reason}", file=sys.stderr)
    incomplete = [
        agent.name for agent in chosen if any(_lacks(measured[agent.name], each) for each in TRIALS)
    ]
    for name in incomplete:
        print(f"{name}: the lab failed in some of its runs", file=sys.stderr)
    return 1 if incomplete or missing else 0


def page_text() -> str:
    """Return docs/findings.md, from the last measurement."""
    results = {
        name: {trial: [Behaviour.load(each) for each in cell] for trial, cell in cells.items()}
        for name, cells in read_cells(MEASURED).items()
    }
    return page({name: _versions(name) for name in results}, results)


def _lacks(cells: Cells, trial: Trial) -> bool:
    return _runs_in(cells, trial) < len(SEEDS)


def _runs_in(cells: Cells, trial: Trial) -> int:
    return sum(len(each["seconds"]) for each in cells.get(trial.name, ()))


def _chosen(only: Sequence[str], missing: Collection[str]) -> list[InstalledAgent]:
    """Return the requested examples that can run, without the MCP client, which places no orders."""
    there = [agent for agent in agents() if agent.name not in (*missing, "mcp_client")]
    return [agent for agent in there if agent.name in only or only == [""]]


def _run_all(agent: InstalledAgent, folder: Path, before: Cells) -> Cells:
    """Return the behaviours under each trial. A run in which the lab failed is repeated once.

    ``before``: the behaviours under the first seeds; only the further ones run.
    """
    home = folder / agent.name
    home.mkdir()
    cells = {}
    with example_lab(agent, home, PROMPT) as lab:
        for trial in TRIALS:
            seeds = SEEDS[_runs_in(before, trial) :]
            tries = (_observe(lab, trial, seed) or _observe(lab, trial, seed) for seed in seeds)
            known = [Behaviour.load(each) for each in before.get(trial.name, ())]
            seen = merged([*known, *behaviours(run for run in tries if run)])
            cells[trial.name] = [each.dump() for each in seen]
            ends = ", ".join(f"{each.first.end} {len(each.seconds)} times" for each in seen)
            print(f"{agent.name}, {trial.name}: {ends}", file=sys.stderr, flush=True)
    return cells


def _observe(lab: ExampleLab, trial: Trial, seed: int) -> Observed | None:
    """Run one trial; return its observation, or nothing if the lab failed."""
    lab.model.persona, before = trial.persona, lab.shop.orders()
    run = lab.run(trial.settings(seed))
    if run.failure:
        print(f"invalid, {run.failure}", file=sys.stderr, flush=True)
        return None
    [episode] = run.summary.as_json()["episodes"]
    delivered = [fault["kind"] for fault in episode["faults"] if fault["delivered"]]
    run_folder = lab.configuration.logs / "runs" / run.record.run_id
    complaints = [file.read_text(errors="replace") for file in run_folder.glob("attempts/*/stderr.txt")]
    return observe(run.record.events, lab.shop.orders() - before, delivered, "\n".join(complaints))


def _versions(example: str) -> str:
    """Return the packages that an example pins."""
    folder = EXAMPLES / example
    if (manifest := folder / "package.json").exists():
        pinned = json.loads(manifest.read_text(encoding="utf-8"))["dependencies"]
        return ", ".join(f"{name} {version}" for name, version in pinned.items())
    lines = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return ", ".join(
        line.replace("==", " ") for line in lines if "==" in line and not line.startswith("httpx")
    )


if __name__ == "__main__":
    sys.exit(main())
