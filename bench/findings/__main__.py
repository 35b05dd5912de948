"""``python -m bench.findings``: flies every example under every trial, and writes docs/findings.md."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.findings.environments import EXAMPLES, ROOT, InstalledAgent, agents, prepare_all
from bench.findings.flying import NotFlown, fly
from bench.findings.observed import Observed
from bench.findings.page import page
from bench.findings.trials import TRIALS

PAGE = ROOT / "docs" / "findings.md"
# most of a flight is waiting for time-outs; more at once would measure the machine
_AT_ONCE = 4


def main() -> int:
    """0 if every example was flown under every trial."""
    parser = ArgumentParser("python -m bench.findings", description=__doc__)
    parser.add_argument(
        "--only", default="", help="examples, by comma; the page is then printed, not written"
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for the flights; those that it has are not flown again"
    )
    given = parser.parse_args()
    only = given.only.split(",")
    missing = prepare_all()
    chosen = [
        agent
        for agent in sorted(agents(), key=lambda each: each.name)
        if agent.name not in missing and (agent.name in only or only == [""])
    ]
    chosen = [agent for agent in chosen if agent.name != "mcp_client"]  # it has no shop
    with tempfile.TemporaryDirectory(prefix="findings-") as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        flights = pool.map(lambda agent: _fly_all(agent, given.keep or Path(folder)), chosen)
        results = {agent.name: observed for agent, observed in zip(chosen, flights, strict=True)}
    complete = {name: observed for name, observed in results.items() if len(observed) == len(TRIALS)}
    text = page({name: _versions(name) for name in complete}, complete)
    if only == [""]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    for name, reason in sorted(missing.items()):
        print(f"examples/frameworks/{name} cannot run here: {reason}", file=sys.stderr)
    return 0 if len(complete) == len(chosen) and not missing else 1


def _fly_all(agent: InstalledAgent, folder: Path) -> dict[str, Observed]:
    """What was observed, by trial; one that the lab could not fly is tried once more, and then said."""
    observed: dict[str, Observed] = {}
    for trial in TRIALS:
        for attempt in (1, 2):
            try:
                observed[trial.name] = fly(agent, trial, folder / agent.name / f"{trial.slug}-{attempt}")
                break
            except NotFlown as error:
                print(error, file=sys.stderr)
        print(f"{agent.name}: {trial.name}", file=sys.stderr)
    return observed


def _versions(example: str) -> str:
    """The packages that an example pins."""
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
