"""``wirefault plan``: what an experiment will do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wirefault.cli.experiment import plans_of, show_plans
from wirefault.cli.experiment_options import (
    ExperimentOptions,
    change_options,
    filter_option,
    only_option,
    prompts_picked,
)


@click.command("plan")
@click.argument(
    "targets", metavar="FILE|DIR|MODULE:NAME", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@only_option
@filter_option
@change_options
def plan_command(
    targets: tuple[Path, ...], only: tuple[str, ...], filters: tuple[str, ...], changes: dict[str, Any]
) -> None:
    """Show what experiments will fly: arms, episodes, what must hold, the toxics drawn. Runs nothing."""
    show_plans(plans_of(targets, ExperimentOptions(changes | prompts_picked(only), filters=filters)))
