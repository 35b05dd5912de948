"""``wirefault search next``: propose the next experiments by what memory knows, or run them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Command
from wirefault.cli.options import (
    ChangeOptions,
    RunOptions,
    declared,
    environ_below,
    setting_options,
    takes,
)
from wirefault.cli.searching import (
    PATH,
    carry_out,
    change_part,
    hooks_option,
    remembered,
    run_part,
    saved_search,
)
from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from wirefault.experiments.plan import ExperimentPlan
    from wirefault.memory.planner.choose import Terms
    from wirefault.memory.planner.source import AgentSource


@dataclass(frozen=True)
class NextChoices:
    """Which experiments to propose, and whether to run them."""

    run: bool = declared(False, "Other", "Run the proposals one by one, each from the results before.")
    budget: int = declared(
        100,
        "Limits",
        "With --run: run at most this many episodes, with the control.",
        type=click.IntRange(1, 10_000),
    )
    count: int = declared(
        5, "Output", "Write at most this many proposals for each FILE.", type=click.IntRange(1, 100)
    )
    enough: int = declared(
        3,
        "Limits",
        "Ask nothing more about a fault at a dose after this many episodes.",
        type=click.IntRange(1, 1000),
    )
    max_risk: float = declared(
        1.0, "Limits", "Propose nothing with a higher probability of harm.", type=click.FloatRange(0, 1)
    )
    beyond_safe: bool = declared(
        False, "Limits", "Propose also doses above one that the agent did not survive."
    )
    every_question: bool = declared(
        False, "Faults", "Ask also the audit's questions that are not asked by default."
    )
    arm: str = declared("", "Faults", "Take the agent's settings of this arm.", metavar="NAME")


@click.command(
    "next",
    cls=Command,
    brief=("run", "budget", "count", "max_risk", "arm", "seed", "workers", "as_json"),
    examples=(
        "wirefault search next experiments/lost-replies.yaml",
        "wirefault search next --run --budget 200",
    ),
)
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...")
@hooks_option
@takes(own=NextChoices, change=change_part, how=run_part)
@setting_options
def next_command(
    files: tuple[Path, ...],
    hooks: tuple[str, ...],
    own: NextChoices,
    change: ChangeOptions,
    how: RunOptions,
    settings: Mapping[str, str],
) -> None:
    """Propose the next experiments by what memory knows, each as a file with its reason and its risk.

    FILE is an experiment, whose agent and prompts are taken; without one, the ones of ./wirefault.yaml, or of
    the lab that ships.
    """
    from wirefault.memory.planner.choose import Terms
    from wirefault.memory.planner.source import agent_source, plan_next

    changes, environ = change.changes(settings), environ_below(how.out)
    terms = Terms(own.enough, own.beyond_safe, own.max_risk)
    codes, rows = [], list[dict[str, Any]]()
    for file in files or (None,):
        source = agent_source(file, own.arm)
        plan = source.plan(changes, environ)
        if own.run:
            search = plan_next(plan, own.budget, terms, every_question=own.every_question)
            codes.append(carry_out(saved_search(search), how, hooks)[0])
        else:
            rows += _propose(source, plan, terms, own.count, own.every_question, hooks, how.as_json)
    if how.as_json and not own.run:
        click.echo(json.dumps({"proposals": rows}, ensure_ascii=False, allow_nan=False))
    sys.exit(max(codes, default=0))


def _propose(
    source: AgentSource,
    plan: ExperimentPlan,
    terms: Terms,
    count: int,
    every_question: bool,
    hooks: Sequence[str],
    as_json: bool,
) -> list[dict[str, Any]]:
    """Write the best proposals as files and show them."""
    from wirefault.memory.planner.planner import Planner, add_hooks
    from wirefault.memory.planner.source import write_next
    from wirefault.memory.store import Memory
    from wirefault.report.search import risk_text

    episodes = remembered(plan.configuration, as_json)
    own_outcomes = Memory(plan.configuration.logs).own_outcomes()
    planner = Planner(episodes, own_outcomes, terms, every_question=every_question)
    add_hooks(planner, hooks)
    cells = planner.cells([prompt.key for prompt in plan.prompts])
    own = "the lab's own agent (for yours, name its experiment)"
    where = source.file or (own if plan.configuration.wiring.is_lab else "./wirefault.yaml")
    if not cells:
        raise InputError(
            f"{where}: no recording has an episode of these prompts without faults that made a call, so"
            " their calls are unknown; run the agent once, or let the search run: wirefault search next --run"
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
