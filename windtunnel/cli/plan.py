"""``windtunnel plan``: what an experiment will do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from windtunnel.cli.experiment import ExperimentOptions, change_options, prompts_picked, show_plans


@click.command("plan")
@click.argument("targets", metavar="FILE|DIR", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--only", metavar="ID|N", multiple=True, help="this prompt alone; may be repeated")
@change_options
def plan_command(targets: tuple[Path, ...], only: tuple[str, ...], changes: dict[str, Any]) -> None:
    """Show what experiments will fly: arms, episodes, what must hold, the toxics drawn. Runs nothing."""
    show_plans(targets, ExperimentOptions(changes | prompts_picked(only)))
