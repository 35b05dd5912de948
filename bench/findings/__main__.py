"""Run every example under every trial and write docs/findings.md: ``python -m bench.findings``."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.findings.environments import EXAMPLES, ROOT, InstalledAgent, agents, prepare_all
from bench.findings.example_lab import ExampleLab, example_lab
from bench.findings.observed import Observed, observe
from bench.findings.page import page
from bench.findings.trials import PROMPT, TRIALS, Trial

PAGE = ROOT / "docs" / "findings.md"
# a run mostly waits for timeouts, but with more at once the machine would distort the figures
_AT_ONCE = 4


def main() -> int:
    """Return 0 if every example ran under every trial."""
    parser = ArgumentParser("python -m bench.findings", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help="run only these examples (comma-separated), and print the page instead of writing it",
    )
    parser.add_argument(
        "--at-once", type=int, default=_AT_ONCE, help=f"number of examples at once; default {_AT_ONCE}"
    )
    options = parser.parse_args()
    missing = prepare_all()
    chosen = _chosen(options.only.split(","), missing)
    with (
        tempfile.TemporaryDirectory(prefix="findings-") as folder,
        ProcessPoolExecutor(options.at_once) as pool,
    ):
        runs = pool.map(_run_all, chosen, [Path(folder)] * len(chosen))
        results = {agent.name: observed for agent, observed in zip(chosen, runs, strict=True)}
    complete = {name: results[name] for name in sorted(results) if len(results[name]) == len(TRIALS)}
    text = page({name: _versions(name) for name in complete}, complete)
    if options.only:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    for name, reason in sorted(missing.items()):
        print(f"examples/frameworks/{name} cannot run here: {reason}", file=sys.stderr)
    return 0 if len(complete) == len(chosen) and not missing else 1


def _chosen(only: Sequence[str], missing: Collection[str]) -> list[InstalledAgent]:
    """Return the requested examples that can run, without the MCP client, which places no orders."""
    there = [agent for agent in agents() if agent.name not in (*missing, "mcp_client")]
    return [agent for agent in there if agent.name in only or only == [""]]


def _run_all(agent: InstalledAgent, folder: Path) -> dict[str, Observed]:
    """Return the observation of each trial. An invalid trial is repeated once."""
    observed: dict[str, Observed] = {}
    home = folder / agent.name
    home.mkdir()
    with example_lab(agent, home, PROMPT) as lab:
        for trial in (*TRIALS, *TRIALS):
            if trial.name not in observed:
                seen = _observe(lab, trial)
                result = f"invalid, {seen}" if isinstance(seen, str) else seen.end
                print(f"{agent.name}, {trial.name}: {result}", file=sys.stderr, flush=True)
                observed |= {} if isinstance(seen, str) else {trial.name: seen}
    return observed


def _observe(lab: ExampleLab, trial: Trial) -> Observed | str:
    """Run one trial; return its observation, or the reason if the lab failed."""
    lab.model.persona, before = trial.persona, lab.shop.orders()
    run = lab.run(trial.settings)
    if run.failure:
        return run.failure
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
