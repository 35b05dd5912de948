"""``wirefault demo``: the lab that ships, under chaos."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import click

from wirefault.cli.help import Command, option
from wirefault.cli.options import (
    PromptsOptions,
    RunOptions,
    environ_below,
    part_of,
    setting_options,
    takes,
)
from wirefault.cli.own_lab import run_in_own_lab
from wirefault.report.terminal import plain_console
from wirefault.wiring.wiring import lab_wiring

duel_option = option(
    "--duel/--no-duel",
    default=True,
    envvar="WIREFAULT_DUEL",
    section="Output",
    help="After the sample prompts, run the lab's agent and a careless one under the same faults.  [env:"
    " WIREFAULT_DUEL]",
)


@click.command(
    "demo",
    cls=Command,
    brief=(
        *("texts", "file", "model", "subject", "seed", "faults", "toxic_prob"),
        *("workers", "charts", "as_json"),
    ),
    examples=("wirefault demo", "wirefault demo --faults lost-replies --toxic-prob 0 --error-prob 0"),
)
@takes(
    prompts=PromptsOptions,
    how=part_of(RunOptions, "subject playbooks workers out charts as_json verbose toxiproxy", charts=True),
)
@setting_options
@duel_option
def demo_command(prompts: PromptsOptions, how: RunOptions, settings: Mapping[str, str], duel: bool) -> None:
    """Start the lab, send the prompts through it under chaos, and show what happened.

    With the sample prompts and the scripted model it ends with a duel: the lab's agent as it ships and a
    careless one under the same faults.
    """
    result, _ = run_in_own_lab(lab_wiring(), prompts, settings, replace(how, fail_on=None))
    code = result.code
    is_sample = prompts == PromptsOptions() and not (how.subject or how.playbooks)
    scripted = result.plan.configuration.settings.model == "scripted"
    if duel and is_sample and scripted and code == 0 and not how.as_json:
        from wirefault.cli.duel import run_duel

        code = run_duel(plain_console(), result.saved.experiment_id, environ_below(how.out), how.toxiproxy)
    sys.exit(code)
