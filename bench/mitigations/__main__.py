"""Measure every cell and write docs/mitigations.md: ``python -m bench.mitigations``."""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from bench.findings.environments import ROOT
from bench.measured import read_cells, write_cells
from bench.mitigations.cells import FAMILIES, Family, Trial
from bench.mitigations.measuring import measure_arm, prepare, prepare_restate, tables_of
from bench.mitigations.page import page
from wirefault.experiments.arms import ArmFacts
from wirefault.stats.exact import exact_high, exact_low

PAGE = ROOT / "docs" / "mitigations.md"
MEASURED = Path(__file__).with_name("measured.json")
_AT_ONCE = 4
_ERROR = 0.05
"""On each side of the intervals of outcomes."""


def main() -> int:
    """Return 0 if every chosen cell was measured and, with ``--arm``, is within its interval."""
    parser = ArgumentParser("python -m bench.mitigations", description=__doc__)
    names = [family.name for family in FAMILIES]
    parser.add_argument("--family", action="append", choices=names, help="measure only this family")
    parser.add_argument("--arm", help="measure one arm again and compare it with the page; write nothing")
    parser.add_argument("--check", action="store_true", help="as --arm, for every arm of the families")
    parser.add_argument("--trial", help="measure only under this fault")
    parser.add_argument("--page", action="store_true", help="write the page from the last measurement")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help=f"arms at once; default {_AT_ONCE}")
    options = parser.parse_args()
    families = [each for each in FAMILIES if each.name in (options.family or names)]
    if options.arm or options.check:
        return _repeat(families, options)
    measured = read_cells(MEASURED)
    failed = 0
    if not options.page:
        for family in families:
            if not family.recovery:
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


def _repeat(families: Sequence[Family], options: Namespace) -> int:
    """Measure arms again; say for each cell whether its outcomes are as often as on the page."""
    chosen = [(each, arm) for each in families for arm in each.arms if options.arm in (None, arm)]
    if not chosen:
        sys.exit(f"--arm {options.arm}: unknown arm of these families")
    within: list[bool] = []
    for family in families:
        arms = [arm for each, arm in chosen if each is family]
        if family.recovery and arms:
            print(f"{family.name}: its model is recorded: python -m pytest tests/e2e/real_model replays it")
        elif arms:
            within += _repeated_cells(family, arms, _chosen(family, options.trial), options.at_once)
    print(f"{sum(within)} of {len(within)} cells within their intervals")
    return 0 if all(within) else 1


def _repeated_cells(family: Family, arms: Sequence[str], trials: Sequence[Trial], at_once: int) -> list[bool]:
    """Measure these cells of the arms again; return for each whether it is within its interval."""
    if not trials:
        return []
    facts = _measured_family(replace(family, arms=arms), trials, at_once)
    before = read_cells(MEASURED).get(family.name, {})
    within = []
    for trial, arm in product(trials, arms):
        cells = before.get(trial.name, {}).get("table", {}).get("arms", ())
        published = next((each["outcomes"] for each in cells if each["arm"] == arm), {})
        measured = (
            Counter(episode.judged.outcome for episode in facts[arm][trial.name].episodes)
            if trial.name in facts.get(arm, {})
            else Counter[str]()
        )
        within.append(_agree(measured, published))
        word = "within" if within[-1] else "outside"
        counts = _outcomes_text(measured) or "not measured"
        print(f"{arm}, {trial.name}: {counts}, {word} {_outcomes_text(published)}", flush=True)
    return within


def _outcomes_text(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))


def _agree(measured: Mapping[str, int], published: Mapping[str, int]) -> bool:
    """Whether each outcome's share is within the exact 90 % interval of the published one."""
    n, of = sum(measured.values()), sum(published.values())
    return bool(n and of) and all(
        exact_low(k := published.get(outcome, 0), of, _ERROR)
        <= measured.get(outcome, 0) / n
        <= exact_high(k, of, _ERROR)
        for outcome in {*measured, *published}
    )


if __name__ == "__main__":
    sys.exit(main())
