"""``wirefault search``: what to try next, at which dose an agent fails, and with which faults."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wirefault.cli.help import Group, option
from wirefault.cli.search_next import next_command
from wirefault.cli.searching import (
    PATH,
    RunOptions,
    carry_out,
    hooks_option,
    run_options,
    run_to_end,
    saved_search,
    source_options,
)
from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from wirefault.experiments.search.options import SearchSource

_MAX_STEPS = 200


@click.group("search", cls=Group)
def search_command() -> None:
    """Find what to test next, the dose, the smallest set or the one fault that makes an agent fail."""


search_command.add_command(next_command)
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@search_command.command(
    "limit",
    brief=("of", "doses", "rate", "cap", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search limit experiments/lost-replies.yaml",
        "wirefault search limit slow.yaml --of delay.seconds --doses 1:20",
    ),
)
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
@source_options
def limit_command(
    source: SearchSource,
    how: RunOptions,
    of: str,
    doses: str | None,
    steps: int,
    rate: float,
    cap: int,
    within: float,
    confidence: float,
) -> None:
    """Find the dose of an experiment's faults at which success falls to a rate.

    Each trial is one episode at the dose that is expected to tell most about it. The result is a dose with
    its credible interval, or why success does not fall with the dose. An interrupted search is resumed by
    wirefault search resume.
    """
    from wirefault.experiments.search.options import plan_limit

    plan = plan_limit(
        source, of, _range(doses), steps, rate=rate, confidence=confidence, cap=cap, within=within
    )
    run_to_end(saved_search(plan), how)


@search_command.command(
    "minimise",
    brief=("fails_at", "passes_at", "write", "pytest", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search minimise experiments/lost-replies.yaml",
        "wirefault search minimise all.yaml --write smallest.yaml --pytest test_smallest.py",
    ),
)
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
    "--write", type=PATH, metavar="FILE", section="Output", help="Write the experiment with the set here."
)
@option(
    "--pytest", type=PATH, metavar="FILE", section="Output", help="Write a pytest of that experiment here."
)
@source_options
def minimise_command(
    source: SearchSource,
    how: RunOptions,
    fails_at: float,
    passes_at: float,
    error: float,
    cap: int,
    write: Path | None,
    pytest: Path | None,
) -> None:
    """Find the smallest set of an experiment's faults with which the agent still fails.

    Faults are left out group by group; each set is decided by a sequential test over its episodes. Writes the
    experiment with the smallest set, and a pytest of it.
    """
    from wirefault.experiments.search.options import check_targets, plan_minimise, write_smallest

    targets = write or source.file.with_name(f"{source.file.stem}.smallest.yaml"), pytest
    check_targets(source, targets)
    plan = plan_minimise(source, fails_at=fails_at, passes_at=passes_at, error=error, cap=cap)
    code, result = carry_out(saved_search(plan), how)
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
    type=PATH,
    metavar="FILE",
    section="Output",
    help="Write the rows as the variants of one experiment here, and run nothing.",
)
@source_options
def pairs_command(
    source: SearchSource,
    how: RunOptions,
    doses: tuple[str, ...],
    repeats: int,
    write: Path | None,
) -> None:
    """Run all pairs of an experiment's faults, on each link and at each dose, in few rows.

    A covering array gives the rows, each a set of faults. The result is the share of pairs that was delivered
    in one episode, and which failed. Needs the extra wirefault[search].
    """
    from wirefault.experiments.search.options import check_targets, plan_pairs, write_rows

    check_targets(source, [write])
    plan = plan_pairs(source, dict(map(_doses, doses)), repeats)
    if write is None:
        run_to_end(saved_search(plan), how)
        return
    write_rows(source, plan, write)
    rows = plan.search["terms"]["rows"]
    click.echo(f"written: {write}, {len(rows)} rows", err=how.as_json)
    if how.as_json:
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
@run_options
def explain_command(
    run: str,
    episode: str,
    arm: str | None,
    error: float,
    cap: int,
    how: RunOptions,
) -> None:
    """Repeat a failed episode without each of its faults in turn, and say which one caused the outcome.

    The faults that are left act as before. Several faults together can be the cause, or it cannot be told.
    """
    from wirefault.cli.saved import own_recording
    from wirefault.experiments.search.options import plan_explain

    saved, recorded = own_recording(run, arm, how.out)
    planned = next(each for each in saved.plan.arms if each.name == recorded.name)
    plan = plan_explain(saved, planned, recorded.episode_named(episode), error=error, cap=cap)
    run_to_end(saved_search(plan), how)


@search_command.command(
    "resume",
    examples=("wirefault search resume latest", "wirefault search resume latest --workers 4"),
)
@click.argument("search")
@hooks_option
@run_options
def resume_command(search: str, hooks: tuple[str, ...], how: RunOptions) -> None:
    """Resume an interrupted search; finished episodes are kept."""
    from wirefault.cli.saved import resumed_experiment

    run_to_end(resumed_experiment(search, how.out), how, hooks)


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
