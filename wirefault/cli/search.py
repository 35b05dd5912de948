"""``wirefault search``: what to try next, at which dose an agent fails, and with which faults."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Group, option
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
    seed_option,
    sequential_changes,
    set_option,
    toxiproxy_option,
    workers_option,
)
from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from wirefault.experiments.plan import ExperimentPlan
    from wirefault.experiments.saved import SavedExperiment
    from wirefault.experiments.search.options import SearchSource
    from wirefault.experiments.search.run_search import SearchResult
    from wirefault.memory.episodes import Episode
    from wirefault.memory.planner.choose import Terms
    from wirefault.memory.planner.source import AgentSource

_PATH = click.Path(path_type=Path)
_MAX_STEPS = 200
_ONCE = ("workers", "toxiproxy", "out", "as_json", "write", "pytest", "seed")
"""Options that a repetition does not need, or has anyway."""


@click.group("search", cls=Group)
def search_command() -> None:
    """Find what to test next, the dose, the smallest set or the one fault that makes an agent fail."""


_source_options = options(
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
    only_option,
    seed_option,
    set_option,
    max_time_option,
    max_cost_option,
)
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
_run_options = options(workers_option, toxiproxy_option, out_option, json_option)


@search_command.command(
    "limit",
    brief=("of", "doses", "rate", "cap", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search limit experiments/lost-replies.yaml",
        "wirefault search limit slow.yaml --of delay.seconds --doses 1:20",
    ),
)
@click.argument("file", type=_PATH)
@option(
    "--of",
    metavar="FIELD",
    default="level",
    show_default=True,
    section="Faults",
    help="Search the dose of this: level, a factor for all probabilities, or FAULT.FIELD, a number of a"
    " fault.",
)
@option(
    "--doses",
    metavar="LOW:HIGH",
    section="Faults",
    help="Try doses between these.  [default: for level, up to where each probability is 1]",
)
@option(
    "--steps",
    type=click.IntRange(2, _MAX_STEPS),
    default=20,
    show_default=True,
    section="Faults",
    help="Try this many doses, at equal distances.",
)
@option(
    "--rate",
    type=_SHARE,
    default=0.5,
    show_default=True,
    section="Limits",
    help="Search the dose at which success falls to this rate.",
)
@option(
    "--cap",
    type=click.IntRange(8, 10_000),
    default=40,
    show_default=True,
    section="Limits",
    help="Run at most this many trials.",
)
@option(
    "--within",
    type=click.FloatRange(min=0),
    default=0.0,
    section="Limits",
    help="Stop once the interval of the dose is at most this wide.",
)
@option(
    "--confidence",
    type=_SHARE,
    default=0.95,
    show_default=True,
    section="Limits",
    help="Mass of the interval of the dose.",
)
@_source_options
@_run_options
def limit_command(
    file: Path,
    of: str,
    doses: str | None,
    steps: int,
    rate: float,
    cap: int,
    within: float,
    confidence: float,
    arm: str,
    failures: tuple[str, ...],
    only: tuple[str, ...],
    seed: int | None,
    changed: tuple[str, ...],
    max_time: str | None,
    max_cost: float | None,
    workers: str,
    toxiproxy: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the dose of an experiment's faults at which success falls to a rate.

    Each trial is one episode at the dose that is expected to tell most about it. The result is a dose with
    its credible interval, or why success does not fall with the dose. An interrupted search is resumed by
    wirefault search resume.
    """
    from wirefault.experiments.search.options import plan_limit

    source = _source(
        file, arm, failures, experiment_changes(seed, None, changed, only), max_time, max_cost, out
    )
    plan = plan_limit(
        source, of, _range(doses), steps, rate=rate, confidence=confidence, cap=cap, within=within
    )
    _run(_saved(plan), workers, toxiproxy, as_json)


@search_command.command(
    "minimise",
    brief=("fails_at", "passes_at", "write", "pytest", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search minimise experiments/lost-replies.yaml",
        "wirefault search minimise all.yaml --write smallest.yaml --pytest test_smallest.py",
    ),
)
@click.argument("file", type=_PATH)
@option(
    "--fails-at",
    type=_SHARE,
    default=0.6,
    show_default=True,
    section="Limits",
    help="A set of faults fails if at least this share of its episodes does.",
)
@option(
    "--passes-at",
    type=_SHARE,
    default=0.2,
    show_default=True,
    section="Limits",
    help="A set passes if at most this share of its episodes fails.",
)
@option(
    "--error",
    type=_SHARE,
    default=0.05,
    show_default=True,
    section="Limits",
    help="Bound on the probability that any decision of the search is wrong.",
)
@option(
    "--cap",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    section="Limits",
    help="Run at most this many episodes of one set.",
)
@option(
    "--write", type=_PATH, metavar="FILE", section="Output", help="Write the experiment with the set here."
)
@option(
    "--pytest", type=_PATH, metavar="FILE", section="Output", help="Write a pytest of that experiment here."
)
@_source_options
@_run_options
def minimise_command(
    file: Path,
    fails_at: float,
    passes_at: float,
    error: float,
    cap: int,
    write: Path | None,
    pytest: Path | None,
    arm: str,
    failures: tuple[str, ...],
    only: tuple[str, ...],
    seed: int | None,
    changed: tuple[str, ...],
    max_time: str | None,
    max_cost: float | None,
    workers: str,
    toxiproxy: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the smallest set of an experiment's faults with which the agent still fails.

    Faults are left out group by group; each set is decided by a sequential test over its episodes. Writes the
    experiment with the smallest set, and a pytest of it.
    """
    from wirefault.experiments.search.options import check_targets, plan_minimise, write_smallest

    source = _source(
        file, arm, failures, experiment_changes(seed, None, changed, only), max_time, max_cost, out
    )
    targets = write or file.with_name(f"{file.stem}.smallest.yaml"), pytest
    check_targets(source, targets)
    plan = plan_minimise(source, fails_at=fails_at, passes_at=passes_at, error=error, cap=cap)
    code, result = _carry_out(_saved(plan), workers, toxiproxy, as_json)
    for path in write_smallest(source, result, *targets):
        click.echo(f"written: {path}", err=True)
    sys.exit(code)


@search_command.command(
    "pairs",
    brief=("doses", "repeats", "write", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search pairs experiments/lost-replies.yaml",
        "wirefault search pairs all.yaml --dose slow.ms=100,2000 --write rows.yaml",
    ),
)
@click.argument("file", type=_PATH)
@option(
    "--dose",
    "doses",
    metavar="FIELD=N,N",
    multiple=True,
    section="Faults",
    help="Try a fault at each of these numbers of FAULT.FIELD instead of as written. Repeatable.",
)
@option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    section="Limits",
    help="Run each prompt this often in each row.",
)
@option(
    "--write",
    type=_PATH,
    metavar="FILE",
    section="Output",
    help="Write the rows as the variants of one experiment here, and run nothing.",
)
@_source_options
@_run_options
def pairs_command(
    file: Path,
    doses: tuple[str, ...],
    repeats: int,
    write: Path | None,
    arm: str,
    failures: tuple[str, ...],
    only: tuple[str, ...],
    seed: int | None,
    changed: tuple[str, ...],
    max_time: str | None,
    max_cost: float | None,
    workers: str,
    toxiproxy: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run all pairs of an experiment's faults, on each link and at each dose, in few rows.

    A covering array gives the rows, each a set of faults. The result is the share of pairs that was delivered
    in one episode, and which failed. Needs the extra wirefault[search].
    """
    from wirefault.experiments.search.options import check_targets, plan_pairs, write_rows

    source = _source(
        file, arm, failures, experiment_changes(seed, None, changed, only), max_time, max_cost, out
    )
    check_targets(source, [write])
    plan = plan_pairs(source, dict(map(_doses, doses)), repeats)
    if write is None:
        _run(_saved(plan), workers, toxiproxy, as_json)
        return
    write_rows(source, plan, write)
    rows = plan.search["terms"]["rows"]
    click.echo(f"written: {write}, {len(rows)} rows", err=as_json)
    if as_json:
        click.echo(json.dumps({"file": str(write), "rows": rows}, ensure_ascii=False, allow_nan=False))


def _doses(text: str) -> tuple[str, list[float]]:
    name, _, values = text.partition("=")
    try:
        numbers = [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"--dose {text}: must be FIELD=N,N, such as slow.ms=100,2000") from None
    if not name or not all(0 <= number < math.inf for number in numbers):
        raise InputError(f"--dose {text}: each number must be at least 0, and finite")
    return name, numbers


@search_command.command(
    "explain",
    examples=("wirefault search explain latest 3", "wirefault search explain latest order --arm method"),
)
@click.argument("run")
@click.argument("episode")
@option("--arm", metavar="NAME", section="Faults", help="Take the episode of this arm.")
@option(
    "--error",
    type=_SHARE,
    default=0.05,
    show_default=True,
    section="Limits",
    help="Bound on the probability that any decision is wrong.",
)
@option(
    "--cap",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    section="Limits",
    help="Repeat the episode at most this often with each set of faults.",
)
@_run_options
def explain_command(
    run: str,
    episode: str,
    arm: str | None,
    error: float,
    cap: int,
    workers: str,
    toxiproxy: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Repeat a failed episode without each of its faults in turn, and say which one caused the outcome.

    The faults that are left act as before. Several faults together can be the cause, or it cannot be told.
    """
    from wirefault.cli.running import own_recording
    from wirefault.experiments.search.options import plan_explain

    saved, recorded = own_recording(run, arm, out)
    planned = next(each for each in saved.plan.arms if each.name == recorded.name)
    plan = plan_explain(saved, planned, recorded.episode_named(episode), error=error, cap=cap)
    _run(_saved(plan), workers, toxiproxy, as_json)


@search_command.command(
    "next",
    brief=("run", "budget", "count", "max_risk", "arm", "seed", "workers", "as_json"),
    examples=(
        "wirefault search next experiments/lost-replies.yaml",
        "wirefault search next --run --budget 200",
    ),
)
@click.argument("files", nargs=-1, type=_PATH, metavar="[FILE]...")
@option(
    "--run", is_flag=True, section="Other", help="Run the proposals one by one, each from the results before."
)
@option(
    "--budget",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    section="Limits",
    help="With --run: run at most this many episodes, those of the control included.",
)
@option(
    "--count",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    section="Output",
    help="Write at most this many proposals for each FILE.",
)
@option(
    "--enough",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    section="Limits",
    help="Ask nothing more about a fault at a dose after this many episodes.",
)
@option(
    "--max-risk",
    type=click.FloatRange(0, 1),
    default=1.0,
    section="Limits",
    help="Propose nothing with a higher probability of harm.",
)
@option(
    "--beyond-safe",
    is_flag=True,
    section="Limits",
    help="Propose also doses above one that the agent did not survive.",
)
@option(
    "--every-question",
    is_flag=True,
    section="Faults",
    help="Ask also the audit's questions that are not asked by default.",
)
@option("--arm", metavar="NAME", default="", section="Faults", help="Take the agent's settings of this arm.")
@only_option
@seed_option
@set_option
@max_time_option
@max_cost_option
@_run_options
def next_command(
    files: tuple[Path, ...],
    run: bool,
    budget: int,
    count: int,
    enough: int,
    max_risk: float,
    beyond_safe: bool,
    every_question: bool,
    arm: str,
    only: tuple[str, ...],
    seed: int | None,
    changed: tuple[str, ...],
    max_time: str | None,
    max_cost: float | None,
    workers: str,
    toxiproxy: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Propose the next experiments by what memory knows, each as a file with its reason and its risk.

    FILE is an experiment, whose agent and prompts are taken; without one, those of ./wirefault.yaml, or of
    the lab that ships.
    """
    from wirefault.memory.planner.choose import Terms
    from wirefault.memory.planner.source import agent_source, plan_next

    environ = environ_below(out)
    changes = experiment_changes(seed, None, changed, only)
    changes |= sequential_changes(False, None, max_time, max_cost)
    terms = Terms(enough, beyond_safe, max_risk)
    codes, rows = [], list[dict[str, Any]]()
    for file in files or (None,):
        source = agent_source(file, arm)
        plan = source.plan(changes, environ)
        if run:
            search = plan_next(plan, budget, terms, every_question=every_question)
            codes.append(_carry_out(_saved(search), workers, toxiproxy, as_json)[0])
        else:
            rows += _propose(source, plan, terms, count, every_question, as_json)
    if as_json and not run:
        click.echo(json.dumps({"proposals": rows}, ensure_ascii=False, allow_nan=False))
    sys.exit(max(codes, default=0))


def _propose(
    source: AgentSource,
    plan: ExperimentPlan,
    terms: Terms,
    count: int,
    every_question: bool,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Write the best proposals as files and show them."""
    from wirefault.memory.planner.planner import Planner
    from wirefault.memory.planner.source import write_next
    from wirefault.memory.store import Memory
    from wirefault.report.search import risk_text

    memory = Memory(plan.configuration.logs)
    episodes = memory.episodes() if memory.exists else []
    planner = Planner(episodes, memory.own_outcomes(), terms, every_question=every_question)
    cells = planner.cells([prompt.key for prompt in plan.prompts])
    where = source.file or "the agent"
    if not cells:
        raise InputError(
            f"{where}: memory has no clean episode of these prompts, so their calls are unknown; run the"
            " agent once and wirefault memory rebuild, or let the search run: wirefault search next --run"
        )
    chosen = list(islice(planner.proposals(cells), count))
    if not chosen:
        click.echo(f"{where}: nothing is worth another episode", err=as_json)
    rows = []
    for number, proposal in enumerate(chosen, 1):
        experiment = planner.experiment(source.data, proposal)
        path = write_next(source, number, experiment)
        checks = [check.name for check in experiment.checks]
        click.echo(f"{path}: {experiment.experiment['title']}", err=as_json)
        click.echo(f"  {proposal.reason}: {proposal.because}", err=as_json)
        click.echo(f"  risk {risk_text(proposal.risk)}: {proposal.risk.evidence}", err=as_json)
        if checks:
            click.echo(f"  checks added: {', '.join(checks)}", err=as_json)
        measured = {each.name: each.measure for each in experiment.metrics if each.measure}
        others = [each.name for each in experiment.metrics if not each.measure]
        watched = ", ".join(f"{name} ({measure})" for name, measure in measured.items())
        click.echo(f"  to watch: {watched}; not measured: {', '.join(others)}", err=as_json)
        rows.append(
            {
                "file": str(path),
                "title": experiment.experiment["title"],
                "reason": proposal.reason,
                "because": proposal.because,
                "risk": asdict(proposal.risk),
                "checks": checks,
                "metrics": {"measured": measured, "not_measured": others},
            }
        )
    return rows


@search_command.command(
    "resume",
    examples=("wirefault search resume latest", "wirefault search resume latest --workers 4"),
)
@click.argument("search")
@_run_options
def resume_command(search: str, workers: str, toxiproxy: str, out: Path | None, as_json: bool) -> None:
    """Resume an interrupted search; finished episodes are kept."""
    from wirefault.cli.running import resumed_experiment

    _run(resumed_experiment(search, out), workers, toxiproxy, as_json)


def _source(
    file: Path,
    arm: str,
    failures: Sequence[str],
    changes: dict[str, Any],
    max_time: str | None,
    max_cost: float | None,
    out: Path | None,
) -> SearchSource:
    from wirefault.experiments.search.options import SearchSource

    changes |= sequential_changes(False, None, max_time, max_cost)
    return SearchSource(file, arm, tuple(failures), changes, environ_below(out))


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        raise InputError(f"--doses {text}: must be LOW:HIGH, such as 1:20") from None
    if not colon or not 0 <= ends[0] < ends[1] < math.inf:
        raise InputError(f"--doses {text}: the first number must be at least 0 and below the second")
    return ends


def _saved(plan: ExperimentPlan) -> SavedExperiment:
    """Save the plan, with the command that repeats it."""
    from wirefault.cli.running import saved_anew

    words = command_words(click.get_current_context(), except_=_ONCE)
    seed = [] if plan.search["kind"] == "explain" else [f"--seed={plan.seed}"]
    return saved_anew(replace(plan, search={**plan.search, "command": [*words, *seed]}))


def _run(saved: SavedExperiment, workers: str, toxiproxy: str, as_json: bool) -> None:
    code, _ = _carry_out(saved, workers, toxiproxy, as_json)
    sys.exit(code)


def _carry_out(
    saved: SavedExperiment, workers: str, toxiproxy: str, as_json: bool
) -> tuple[int, SearchResult]:
    """Run the rest of the search and show it."""
    from wirefault.cli.running import ready_to_run, workers_for
    from wirefault.experiments.engine import LocalEngine, RunControl
    from wirefault.experiments.search.run_search import run_search
    from wirefault.lab.process import print_to_stderr
    from wirefault.report.page.write import page_line
    from wirefault.report.search import search_lines

    choice = ready_to_run(saved, toxiproxy)
    click.echo(saved.plan.experiment.title, err=as_json)
    workers_count = workers_for(saved.plan.configuration.wiring, workers)
    control = RunControl(choice, print_to_stderr, lambda _: None, workers_count)
    steps = None
    if saved.plan.search["kind"] == "next":
        from wirefault.memory.planner.run_next import steps_with

        steps = steps_with(_remembered(saved, as_json))
    result = run_search(saved, control, LocalEngine(), steps)
    for line in search_lines(result):
        click.echo(line, err=as_json)
    environ = saved.plan.configuration.environ
    click.echo(page_line(saved.logs, saved.experiment_id, environ), err=as_json)
    if as_json:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False))
    return result.code, result


def _remembered(saved: SavedExperiment, as_json: bool) -> list[Episode]:
    """The episodes of memory, which is rebuilt first if it lacks a recording other than this search."""
    from wirefault.memory.histories import rebuilt, unremembered
    from wirefault.memory.store import Memory

    memory = Memory(saved.logs)
    if any(name != saved.experiment_id for name in unremembered(memory, saved.logs)):
        count, skipped = rebuilt(memory, saved.logs, saved.plan.configuration.environ)
        text = f", {len(skipped)} recordings skipped: wirefault memory rebuild" if skipped else ""
        click.echo(f"memory rebuilt from the recordings: {count} episodes{text}", err=as_json)
    return memory.episodes() if memory.exists else []
