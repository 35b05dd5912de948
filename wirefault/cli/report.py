"""``wirefault report``: an experiment's verdict, judged again from its histories."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from wirefault.cli.experiment import saved_experiment, show_verdict
from wirefault.experiments.effects import effects_in
from wirefault.experiments.run_experiment import judged_again, obstacles_in
from wirefault.report.experiment import arm_line, junit
from wirefault.report.terminal import plain_console


@click.command("report")
@click.option("--out", type=click.Path(path_type=Path), help="folder of its logs/")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
@click.option("--junit", "as_junit", is_flag=True, help="JUnit's XML on standard output")
@click.argument("experiment", metavar="ID|latest")
def report_command(experiment: str, out: Path | None, as_json: bool, as_junit: bool) -> None:
    """Judge an experiment again from its histories, and show what held. Flies nothing."""
    flight = judged_again(saved_experiment(experiment, out))
    if as_json:
        shown = {
            **flight.as_json(),
            "effects": [asdict(effect) for effect in effects_in(flight.saved)],
            "not_reproducible_because": obstacles_in(flight),
        }
        sys.stdout.write(json.dumps(shown, ensure_ascii=False) + "\n")
    elif as_junit:
        sys.stdout.write(junit([flight]))
    else:
        console = plain_console()
        console.print(flight.plan.experiment.title, style="bold", markup=False)
        for arm in flight.arms:
            console.print(arm_line(arm))
        show_verdict(console, flight, out)
    sys.exit(flight.code)
