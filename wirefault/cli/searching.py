"""Options that the searches share, and how a search is run from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import option
from wirefault.cli.options import (
    ChangeOptions,
    RunOptions,
    command_words,
    declared,
    environ_below,
    part_of,
    setting_options,
    takes,
)
from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from wirefault.experiments.plan import ExperimentPlan
    from wirefault.experiments.saved import SavedExperiment
    from wirefault.experiments.search.run_search import SearchResult
    from wirefault.memory.episodes import Remembered
    from wirefault.settings.configuration import Configuration

PATH = click.Path(path_type=Path)
_ONCE = ("workers", "toxiproxy", "out", "as_json", "write", "pytest", "seed")
"""Options that a repetition does not need, or has anyway."""


run_part = part_of(RunOptions, "workers toxiproxy out as_json")
change_part = part_of(ChangeOptions, "only max_time max_cost")


@dataclass(frozen=True)
class SearchedPart:
    """Which part of an experiment is searched."""

    arm: str = declared("", "Faults", "Search with the faults of this arm.", metavar="NAME")
    failures: tuple[str, ...] = declared(
        (),
        "Agent",
        "Count only this outcome as a failure, such as duplicate. Repeatable.  [default: all but success]",
        "--failure",
        metavar="OUTCOME",
    )


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add FILE, its options and the options of each run; the command gets ``source`` and ``how``."""

    @click.argument("file", type=PATH)
    @takes(searched=SearchedPart, change=change_part, how=run_part)
    @setting_options
    @wraps(command)
    def with_source(
        *,
        file: Path,
        searched: SearchedPart,
        change: ChangeOptions,
        settings: Mapping[str, str],
        how: RunOptions,
        **others: Any,
    ) -> None:
        from wirefault.experiments.search.options import SearchSource

        changes, environ = change.changes(settings), environ_below(how.out)
        source = SearchSource(file, searched.arm, searched.failures, changes, environ)
        command(source=source, how=how, **others)

    return with_source


hooks_option = option(
    "--hooks",
    metavar="MODULE:FUNCTION",
    multiple=True,
    section="Agent",
    help="Call this function with the planner, to add knowledge, enhancements and risk factors of yours."
    " Repeatable.",
)


def saved_search(plan: ExperimentPlan) -> SavedExperiment:
    """Save the plan, with the command that repeats it."""
    from wirefault.cli.saved import saved_anew

    words = command_words(click.get_current_context(), except_=_ONCE)
    seed = [] if plan.search["kind"] == "explain" else [f"--seed={plan.seed}"]
    return saved_anew(replace(plan, search={**plan.search, "command": [*words, *seed]}))


def run_to_end(saved: SavedExperiment, how: RunOptions, hooks: Sequence[str] = ()) -> None:
    code, _ = carry_out(saved, how, hooks)
    sys.exit(code)


def carry_out(saved: SavedExperiment, how: RunOptions, hooks: Sequence[str] = ()) -> tuple[int, SearchResult]:
    """Run the rest of the search and show it."""
    from wirefault.cli.running import progress_on, ready_to_run, workers_for
    from wirefault.experiments.engine import LocalEngine, RunControl
    from wirefault.experiments.search.run_search import run_search
    from wirefault.lab.process import print_to_stderr
    from wirefault.report.page.write import page_line
    from wirefault.report.search import search_lines
    from wirefault.report.terminal import plain_console

    choice = ready_to_run(saved, how.toxiproxy)
    click.echo(saved.plan.experiment.title, err=how.as_json)
    workers_count = workers_for(saved.plan.configuration.wiring, how.workers)
    steps = None
    if saved.plan.search["kind"] == "next":
        from wirefault.memory.planner.run_next import steps_with

        steps = steps_with(remembered(saved.plan.configuration, how.as_json, saved.experiment_id), hooks)
    elif hooks:
        raise InputError("--hooks: only a search for the next experiments has hooks")
    with progress_on(plain_console(stderr=True)) as progress:
        control = RunControl(choice, print_to_stderr, workers_count, progress=progress)
        result = run_search(saved, control, LocalEngine(), steps)
    for line in search_lines(result):
        click.echo(line, err=how.as_json)
    environ = saved.plan.configuration.environ
    click.echo(page_line(saved.logs, saved.experiment_id, environ), err=how.as_json)
    if how.as_json:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False))
    return result.code, result


def remembered(configuration: Configuration, as_json: bool, search_id: str = "") -> list[Remembered]:
    """The episodes of memory, which is rebuilt first if it lacks a recording other than the search."""
    from wirefault.memory.histories import rebuilt, unremembered
    from wirefault.memory.store import Memory

    memory = Memory(configuration.logs)
    if any(name != search_id for name in unremembered(memory, configuration.logs)):
        count, skipped = rebuilt(memory, configuration.logs, configuration.environ)
        text = f", {len(skipped)} recordings skipped: wirefault memory rebuild" if skipped else ""
        click.echo(f"memory rebuilt from the recordings: {count} episodes{text}", err=as_json)
    return memory.episodes() if memory.exists else []
