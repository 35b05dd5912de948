"""``wirefault stress``: an experiment's faults at several doses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from wirefault.cli.experiment import plans_of, run_and_show, saved_anew
from wirefault.cli.experiment_options import (
    ExperimentOptions,
    change_options,
    only_option,
    prompts_picked,
    rerun_options,
)
from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import files_meant
from wirefault.experiments.plan import levels_of, stressed
from wirefault.report.experiment import level_rows, print_levels
from wirefault.report.terminal import plain_console

_MOST = 100.0


def _levels(context: click.Context, parameter: click.Parameter, value: str) -> list[float]:
    try:
        levels = [float(word) for word in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"must be numbers with commas between them, not {value}") from None
    if not all(0 < level <= _MOST for level in levels):
        raise click.BadParameter(f"each must be above 0 and at most {_MOST:g}, not {value}")
    return sorted(set(levels))


@click.command("stress")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--levels",
    default="0.1,0.25,0.5,0.75,1,1.5,2",
    show_default=True,
    callback=_levels,
    help="factors on each chance of the experiment's faults; what would be above 1 is 1, and said",
)
@click.option(
    "--iterations",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="times that each prompt is flown",
)
@only_option
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
@rerun_options
@change_options
def stress_command(
    target: Path,
    levels: list[float],
    iterations: int,
    only: tuple[str, ...],
    as_json: bool,
    changes: dict[str, Any],
    toxiproxy: str,
    out: Path | None,
    verbose: bool,
    workers: str,
    engine: str,
) -> None:
    """Fly an experiment's faults at several levels, and show up to which one its hypothesis holds."""
    if files_meant(target) != [target]:
        raise InputError(f"{target}: is a folder; name one experiment")
    changes = {"repeats": iterations} | changes | prompts_picked(only)
    options = ExperimentOptions(
        changes, toxiproxy, out, as_json, verbose=verbose, workers=workers, engine=engine
    )
    [plan] = plans_of([target], options)
    doses = levels_of(plan, levels)
    flight = run_and_show(saved_anew(stressed(plan, doses)), options)
    print_levels(plain_console(stderr=as_json), doses, flight)
    if as_json:
        shown = {**flight.as_json(), "levels": level_rows(doses, flight)}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False) + "\n")
    sys.exit(flight.code)
