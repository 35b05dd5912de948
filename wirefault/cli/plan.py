"""``wirefault plan``: show what an experiment will do, without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.text import Text

from wirefault.cli.help import Command
from wirefault.cli.options import (
    SET,
    ChangeOptions,
    RunOptions,
    environ_below,
    part_of,
    setting_options,
    takes,
)
from wirefault.core.errors import InputError
from wirefault.experiments.cost import Cost, estimated, total
from wirefault.experiments.experiment_file import (
    ExperimentFile,
    experiments_below,
    files_meant,
    is_module_name,
    load_experiments,
    load_from_module,
)
from wirefault.experiments.index import last_run_of
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_tournament import contests_in, is_next_arm, tournament_title
from wirefault.lab.process import print_to_stderr
from wirefault.report.experiment_plan import print_plan, undecidable_lines
from wirefault.report.terminal import plain_console


@click.command(
    "plan",
    cls=Command,
    brief=(*part_of(ChangeOptions).names, "filters", "seed", SET),
    examples=(
        "wirefault plan experiments/lost-replies.yaml",
        "wirefault plan experiments --filter quick --repeats 3",
    ),
)
@click.argument(
    "targets", metavar="FILE|DIR|MODULE:NAME...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@takes(change=ChangeOptions, how=part_of(RunOptions, "filters"))
@setting_options
def plan_command(
    targets: tuple[Path, ...], change: ChangeOptions, how: RunOptions, settings: Mapping[str, str]
) -> None:
    """Show what experiments will run: arms, episodes, statements and the toxics drawn. Runs nothing.

    A target in Python is imported; what a file names, such as a function that judges, is only read.
    """
    show_plans(plans_of(targets, replace(how, changes=change.changes(settings))))


def plans_of(targets: Iterable[Path], how: RunOptions) -> list[ExperimentPlan]:
    """Read and plan all experiments before any of them runs. Raises ``UserError``."""
    environ = environ_below(how.out)
    read = [each for target in targets for each in _read(target, how)]
    selected = [each for each in read if _is_selected(each, how.filters)]
    if not selected:
        tags = sorted({tag for each in read for tag in each.experiment.tags})
        raise InputError(f"--filter: no experiment has this title or tag; tags: {', '.join(tags) or 'none'}")
    plans: list[ExperimentPlan] = []
    for each in selected:
        plan = plan_experiment(each, environ)
        if plans and is_next_arm(plans[-1], plan) and each.experiment.seed is None:
            seeded = each.experiment.model_copy(update={"seed": plans[-1].seed})
            plan = plan_experiment(replace(each, experiment=seeded), environ)
        plans.append(plan)
    for line in dict.fromkeys(line for plan in plans for line in plan.notes):
        print_to_stderr(f"warning: {line}")
    return [_tagged(plan, how.tags) for plan in plans]


def _tagged(plan: ExperimentPlan, tags: Sequence[str]) -> ExperimentPlan:
    both = list(dict.fromkeys([*plan.experiment.tags, *tags]))
    return replace(plan, experiment=plan.experiment.model_copy(update={"tags": both}))


def _is_selected(file: ExperimentFile, filters: Sequence[str]) -> bool:
    names = [name.casefold() for name in (file.experiment.title, *file.experiment.tags)]
    patterns = [pattern.casefold() for pattern in filters]
    return not filters or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _read(target: Path, how: RunOptions) -> list[ExperimentFile]:
    if is_module_name(target):
        return load_from_module(str(target), how.changes)
    files = experiments_below(target) if how.recursive else files_meant(target)
    return [each for file in files for each in load_experiments(file, how.changes)]


def expected_cost(plans: Sequence[ExperimentPlan]) -> Cost:
    """Estimate what they cost together, each by its last run."""
    lasts = [last_run_of(plan.configuration.logs, plan.experiment.title) for plan in plans]
    return total([estimated(plan, last) for plan, last in zip(plans, lasts, strict=True)])


def show_plans(plans: Iterable[ExperimentPlan]) -> None:
    """Show the plans. Raises ``InputError`` for claims that they cannot decide."""
    console, problems = plain_console(), list[str]()
    for contest in contests_in(list(plans)):
        for plan in contest:
            print_plan(console, plan, last_run_of(plan.configuration.logs, plan.experiment.title))
            problems += [f"{plan.experiment.title}: {line}" for line in undecidable_lines(plan)]
        if len(contest) > 1:
            console.print(Text(f"{tournament_title(contest[0])}: {expected_cost(contest).text}"))
    if problems:
        raise InputError("\n".join(problems))
