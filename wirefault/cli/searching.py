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
    command_words,
    environ_below,
    experiment_changes,
    json_option,
    max_cost_option,
    max_time_option,
    only_option,
    options,
    out_option,
    sequential_changes,
    setting_options,
    toxiproxy_option,
    workers_option,
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


@dataclass(frozen=True)
class RunOptions:
    """The options of ``run_options``."""

    workers: str
    toxiproxy: str
    out: Path | None
    as_json: bool


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of each run; the command gets them as ``how``."""

    @wraps(command)
    def with_how(*, workers: str, toxiproxy: str, out: Path | None, as_json: bool, **others: Any) -> None:
        command(how=RunOptions(workers, toxiproxy, out, as_json), **others)

    return options(workers_option, toxiproxy_option, out_option, json_option)(with_how)


change_options = options(only_option, setting_options, max_time_option, max_cost_option)


def changes_in(
    *,
    only: tuple[str, ...],
    settings: Mapping[str, str],
    max_time: str | None,
    max_cost: float | None,
) -> dict[str, Any]:
    """The changes of an experiment by ``change_options``."""
    changes = experiment_changes(settings, None, only)
    return changes | sequential_changes(False, None, max_time, max_cost)


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add FILE, its options and the options of each run; the command gets ``source`` and ``how``."""

    @wraps(command)
    def with_source(*, how: RunOptions, **values: Any) -> None:
        from wirefault.experiments.search.options import SearchSource

        file, arm, failures = (values.pop(name) for name in ("file", "arm", "failures"))
        changes = changes_in(**{name: values.pop(name) for name in _CHANGE_NAMES})
        source = SearchSource(file, arm, tuple(failures), changes, environ_below(how.out))
        command(source=source, how=how, **values)

    return _source_table(run_options(with_source))


_CHANGE_NAMES = ("only", "settings", "max_time", "max_cost")
_source_table = options(
    click.argument("file", type=PATH),
    option("--arm", metavar="NAME", default="", section="Faults", help="Search with the faults of this arm."),
    option(
        "--failure",
        "failures",
        metavar="OUTCOME",
        multiple=True,
        section="Agent",
        help="Count only this outcome as a failure, such as duplicate. Repeatable.  [default: all but"
        " success]",
    ),
    change_options,
)
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
    from wirefault.cli.running import ready_to_run, workers_for
    from wirefault.experiments.engine import LocalEngine, RunControl
    from wirefault.experiments.search.run_search import run_search
    from wirefault.lab.process import print_to_stderr
    from wirefault.report.page.write import page_line
    from wirefault.report.search import search_lines

    choice = ready_to_run(saved, how.toxiproxy)
    click.echo(saved.plan.experiment.title, err=how.as_json)
    workers_count = workers_for(saved.plan.configuration.wiring, how.workers)
    control = RunControl(choice, print_to_stderr, workers_count)
    steps = None
    if saved.plan.search["kind"] == "next":
        from wirefault.memory.planner.run_next import steps_with

        steps = steps_with(remembered(saved.plan.configuration, how.as_json, saved.experiment_id), hooks)
    elif hooks:
        raise InputError("--hooks: only a search for the next experiments has hooks")
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
