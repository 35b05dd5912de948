"""``wirefault plan``: show what an experiment will do, without running it."""

from __future__ import annotations

from pathlib import Path

import click

from wirefault.cli.help import Command
from wirefault.cli.options import (
    RunOptions,
    experiment_changes,
    filter_option,
    max_cost_option,
    max_episodes_option,
    max_time_option,
    only_option,
    options,
    repeats_option,
    seed_option,
    sequential_changes,
    set_option,
    until_decided_option,
)
from wirefault.cli.running import plans_of, show_plans


@click.command(
    "plan",
    cls=Command,
    examples=(
        "wirefault plan experiments/lost-replies.yaml",
        "wirefault plan experiments --filter quick --repeats 3",
    ),
)
@click.argument(
    "targets", metavar="FILE|DIR|MODULE:NAME...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options(
    only_option,
    filter_option,
    seed_option,
    repeats_option,
    until_decided_option,
    max_episodes_option,
    max_time_option,
    max_cost_option,
    set_option,
)
def plan_command(
    targets: tuple[Path, ...],
    only: tuple[str, ...],
    filters: tuple[str, ...],
    seed: int | None,
    repeats: int | None,
    changed: tuple[str, ...],
    until_decided: bool,
    max_episodes: int | None,
    max_time: str | None,
    max_cost: float | None,
) -> None:
    """Show what experiments will run: arms, episodes, statements and the toxics drawn. Runs nothing."""
    changes = experiment_changes(seed, repeats, changed, only)
    changes |= sequential_changes(until_decided, max_episodes, max_time, max_cost)
    show_plans(plans_of(targets, RunOptions(changes=changes, filters=filters)))
