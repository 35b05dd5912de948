"""Measure every cell and write docs/mitigations.md: ``python -m bench.mitigations``."""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.findings.environments import ROOT
from bench.measured import read_cells, write_cells
from bench.mitigations.cells import FAMILIES, Family, Trial
from bench.mitigations.measuring import measure_arm, prepare, prepare_restate, tables_of
from bench.mitigations.page import page
from wirefault.experiments.arms import ArmFacts

PAGE = ROOT / "docs" / "mitigations.md"
MEASURED = Path(__file__).with_name("measured.json")
_AT_ONCE = 4


def main() -> int:
    """Return 0 if every chosen cell was measured and, with ``--arm``, is within its interval."""
    parser = ArgumentParser("python -m bench.mitigations", description=__doc__)
    names = [family.name for family in FAMILIES]
    parser.add_argument("--family", action="append", choices=names, help="measure only this family")
    parser.add_argument("--arm", help="measure one arm again and compare it with the page; write nothing")
    parser.add_argument("--trial", help="measure only under this fault")
    parser.add_argument("--page", action="store_true", help="write the page from the last measurement")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help=f"arms at once; default {_AT_ONCE}")
    options = parser.parse_args()
    if options.arm:
        return _repeat(options)
    measured = read_cells(MEASURED)
    failed = 0
    if not options.page:
        for family in FAMILIES:
            if family.name in (options.family or names) and not family.recovery:
                trials = _chosen(family, options.trial)
                if not trials:
                    continue
                facts = _measured_family(family, trials, options.at_once)
                failed += len(family.arms) - len(facts)
                cells = {**measured.get(family.name, {}), **as_json(family, facts)}
                measured = {**measured, family.name: cells}
                write_cells(MEASURED, measured)
                PAGE.write_text(page_text(), encoding="utf-8")
    PAGE.write_text(page_text(), encoding="utf-8")
    return 1 if failed else 0


def page_text() -> str:
    """Return docs/mitigations.md, from the last measurement."""
    versions = {}
    for name in dict.fromkeys(family.environment for family in FAMILIES):
        lines = Path(__file__).with_name(f"{name}.requirements.txt").read_text(encoding="utf-8").split()
        versions[name] = [line.replace("==", " ") for line in lines]
    return page(read_cells(MEASURED), versions)


def _chosen(family: Family, trial: str | None) -> list[Trial]:
    """The family's trials of that name, and those without faults that they are compared with."""
    chosen = [each for each in family.trials if trial in (None, each.name)]
    calm = {each.calm for each in chosen}
    return [each for each in family.trials if each in chosen or each.name in calm]


def _measured_family(family: Family, trials: Sequence[Trial], at_once: int) -> dict[str, dict[str, ArmFacts]]:
    prepare(family.environment)
    if family.name == "durable-server":
        prepare_restate()
    facts = {}
    with tempfile.TemporaryDirectory(prefix="mitigations-") as home, ProcessPoolExecutor(at_once) as pool:
        running = {
            arm: pool.submit(measure_arm, arm, family, trials, Path(home) / str(place))
            for place, arm in enumerate(family.arms)
        }
        for arm, future in running.items():
            try:
                facts[arm] = future.result()
            except Exception as error:  # the other arms are measured all the same
                print(f"{arm}: not measured: {error}", file=sys.stderr)
    return facts


def as_json(family: Family, facts: Mapping[str, Mapping[str, ArmFacts]]) -> dict[str, Any]:
    return {
        name: {
            "table": table.as_json(),
            "reached": {
                arm: sum(bool(each.delivered) for each in of_arm[name].episodes)
                for arm, of_arm in facts.items()
                if name in of_arm
            },
            "seconds": {
                arm: [round(sum(each.seconds), 2) for each in of_arm[name].episodes]
                for arm, of_arm in facts.items()
                if name in of_arm
            },
        }
        for name, table in tables_of(family, facts).items()
    }


def _repeat(options: Namespace) -> int:
    """Measure one arm again; say for each fault whether its success is within the page's interval."""
    family = next(each for each in FAMILIES if options.arm in each.arms)
    if family.recovery:
        sys.exit("its model is recorded: python -m pytest tests/e2e/real_model replays it")
    trials = _chosen(family, options.trial)
    with tempfile.TemporaryDirectory(prefix="mitigations-") as home:
        facts = measure_arm(options.arm, family, trials, Path(home) / "arm")
    outside = 0
    for trial in trials:
        rate = facts[trial.name].success
        cell = read_cells(MEASURED).get(family.name, {}).get(trial.name, {}).get("table", {}).get("arms", ())
        before = next((each["success"] for each in cell if each["arm"] == options.arm), None)
        share = rate.k / rate.n if rate.n else None
        is_within = before is not None and share is not None and before["low"] <= share <= before["high"]
        outside += not is_within
        word = "within" if is_within else "outside"
        print(f"{options.arm}, {trial.name}: {rate.k} of {rate.n}, {word} {before}")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
