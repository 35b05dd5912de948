"""``wirefault search``: what to try next, at which dose an agent fails, and with which faults."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wirefault.cli.help import Group
from wirefault.cli.options import RunOptions, declared, takes
from wirefault.cli.search_next import next_command
from wirefault.cli.searching import (
    carry_out,
    hooks_option,
    run_part,
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


@dataclass(frozen=True)
class LimitChoices:
    """Which dose to find, and how well."""

    of: str = declared(
        "level",
        "Faults",
        "Search the dose of this: level, a factor for all probabilities, or FAULT.FIELD, a number of a"
        " fault.",
        metavar="FIELD",
    )
    doses: str | None = declared(
        None,
        "Faults",
        "Try doses between these.  [default: for level, up to where each probability is 1]",
        metavar="LOW:HIGH",
    )
    steps: int = declared(
        20, "Faults", "Try this many doses, at equal distances.", type=click.IntRange(2, _MAX_STEPS)
    )
    rate: float = declared(0.5, "Limits", "Search the dose at which success falls to this rate.", type=_SHARE)
    cap: int = declared(40, "Limits", "Run at most this many trials.", type=click.IntRange(8, 10_000))
    within: float = declared(
        0.0,
        "Limits",
        "Stop once the interval of the dose is at most this wide.",
        type=click.FloatRange(min=0),
    )
    confidence: float = declared(0.95, "Limits", "Mass of the interval of the dose.", type=_SHARE)


@search_command.command(
    "limit",
    brief=("of", "doses", "rate", "cap", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search limit experiments/lost-replies.yaml",
        "wirefault search limit slow.yaml --of delay.seconds --doses 1:20",
    ),
)
@takes(own=LimitChoices)
@source_options
def limit_command(source: SearchSource, how: RunOptions, own: LimitChoices) -> None:
    """Find the dose of an experiment's faults at which success falls to a rate.

    Each trial is one episode at the dose that is expected to tell most about it. The result is a dose with
    its credible interval, or why success does not fall with the dose. An interrupted search is resumed by
    wirefault search resume.
    """
    from wirefault.experiments.search.options import plan_limit

    ends, numbers = (
        _range(own.doses),
        {key: getattr(own, key) for key in ("rate", "confidence", "cap", "within")},
    )
    plan = plan_limit(source, own.of, ends, own.steps, **numbers)
    run_to_end(saved_search(plan), how)


@dataclass(frozen=True)
class MinimiseChoices:
    """When a set of faults fails, and what to write."""

    fails_at: float = declared(
        0.6, "Limits", "A set of faults fails if at least this share of its episodes does.", type=_SHARE
    )
    passes_at: float = declared(
        0.2, "Limits", "A set passes if at most this share of its episodes fails.", type=_SHARE
    )
    error: float = declared(
        0.05, "Limits", "Bound on the probability that any decision of the search is wrong.", type=_SHARE
    )
    cap: int = declared(
        200, "Limits", "Run at most this many episodes of one set.", type=click.IntRange(1, 10_000)
    )
    write: Path | None = declared(None, "Output", "Write the experiment with the set here.", metavar="FILE")
    pytest: Path | None = declared(None, "Output", "Write a pytest of that experiment here.", metavar="FILE")


@search_command.command(
    "minimise",
    brief=("fails_at", "passes_at", "write", "pytest", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search minimise experiments/lost-replies.yaml",
        "wirefault search minimise all.yaml --write smallest.yaml --pytest test_smallest.py",
    ),
)
@takes(own=MinimiseChoices)
@source_options
def minimise_command(source: SearchSource, how: RunOptions, own: MinimiseChoices) -> None:
    """Find the smallest set of an experiment's faults with which the agent still fails.

    Faults are left out group by group; each set is decided by a sequential test over its episodes. Writes the
    experiment with the smallest set, and a pytest of it.
    """
    from wirefault.experiments.search.options import check_targets, plan_minimise, write_smallest

    targets = own.write or source.file.with_name(f"{source.file.stem}.smallest.yaml"), own.pytest
    check_targets(source, targets)
    plan = plan_minimise(source, fails_at=own.fails_at, passes_at=own.passes_at, error=own.error, cap=own.cap)
    code, result = carry_out(saved_search(plan), how)
    for path in write_smallest(source, result, *targets):
        click.echo(f"written: {path}", err=True)
    sys.exit(code)


@dataclass(frozen=True)
class PairsChoices:
    """Which pairs to run, how often, and what to write."""

    doses: tuple[str, ...] = declared(
        (),
        "Faults",
        "Try a fault at each of these numbers of FAULT.FIELD instead of as written. Repeatable.",
        "--dose",
        metavar="FIELD=N,N",
    )
    repeats: int = declared(
        1, "Limits", "Run each prompt this often in each row.", type=click.IntRange(1, 1000)
    )
    write: Path | None = declared(
        None,
        "Output",
        "Write the rows as the variants of one experiment here, and run nothing.",
        metavar="FILE",
    )


@search_command.command(
    "pairs",
    brief=("doses", "repeats", "write", "arm", "failures", "seed", "workers", "as_json"),
    examples=(
        "wirefault search pairs experiments/lost-replies.yaml",
        "wirefault search pairs all.yaml --dose slow.ms=100,2000 --write rows.yaml",
    ),
)
@takes(own=PairsChoices)
@source_options
def pairs_command(source: SearchSource, how: RunOptions, own: PairsChoices) -> None:
    """Run all pairs of an experiment's faults, on each link and at each dose, in few rows.

    A covering array gives the rows, each a set of faults. The result is the share of pairs that was delivered
    in one episode, and which failed. Needs the extra wirefault[search].
    """
    from wirefault.experiments.search.options import check_targets, plan_pairs, write_rows

    check_targets(source, [own.write])
    plan = plan_pairs(source, dict(map(_doses, own.doses)), own.repeats)
    if (write := own.write) is None:
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


@dataclass(frozen=True)
class ExplainChoices:
    """Which episode to explain, and how surely."""

    arm: str | None = declared(None, "Faults", "Take the episode of this arm.", metavar="NAME")
    error: float = declared(
        0.05, "Limits", "Bound on the probability that any decision is wrong.", type=_SHARE
    )
    cap: int = declared(
        50,
        "Limits",
        "Repeat the episode at most this often with each set of faults.",
        type=click.IntRange(1, 10_000),
    )


@search_command.command(
    "explain",
    examples=("wirefault search explain latest 3", "wirefault search explain latest order --arm method"),
)
@click.argument("run")
@click.argument("episode")
@takes(own=ExplainChoices, how=run_part)
def explain_command(run: str, episode: str, own: ExplainChoices, how: RunOptions) -> None:
    """Repeat a failed episode without each of its faults in turn, and say which one caused the outcome.

    The faults that are left act as before. Several faults together can be the cause, or it cannot be told.
    """
    from wirefault.cli.saved import own_recording
    from wirefault.experiments.search.options import plan_explain

    saved, recorded = own_recording(run, own.arm, how.out)
    planned = next(each for each in saved.plan.arms if each.name == recorded.name)
    plan = plan_explain(saved, planned, recorded.episode_named(episode), error=own.error, cap=own.cap)
    run_to_end(saved_search(plan), how)


@search_command.command(
    "resume",
    examples=("wirefault search resume latest", "wirefault search resume latest --workers 4"),
)
@click.argument("search")
@hooks_option
@takes(how=run_part)
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
