"""``windtunnel plan``: what an experiment will do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from windtunnel.cli.experiment import plans_of
from windtunnel.cli.experiment_options import ExperimentOptions, change_options, only_option, prompts_picked
from windtunnel.report.experiment import print_plan
from windtunnel.report.terminal import plain_console


@click.command("plan")
@click.argument(
    "targets", metavar="FILE|DIR|MODULE:NAME", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@only_option
@change_options
def plan_command(targets: tuple[Path, ...], only: tuple[str, ...], changes: dict[str, Any]) -> None:
    """Show what experiments will fly: arms, episodes, what must hold, the toxics drawn. Runs nothing."""
    for plan in plans_of(targets, ExperimentOptions(changes | prompts_picked(only))):
        print_plan(plain_console(), plan)
