"""``wirefault demo``: the lab that ships, under chaos."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from wirefault.cli.help import Command, option
from wirefault.cli.options import (
    PromptsOptions,
    RunOptions,
    charts_option,
    environ_below,
    json_option,
    options,
    out_option,
    playbooks_option,
    prompts_options,
    setting_options,
    subject_option,
    toxiproxy_option,
    workers_option,
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
@options(
    prompts_options, subject_option, playbooks_option, setting_options, workers_option, out_option,
    charts_option(True), duel_option, json_option, toxiproxy_option,
)  # fmt: skip
def demo_command(
    file: Path | None,
    texts: tuple[str, ...],
    only: tuple[str, ...],
    match: str,
    duel: bool,
    settings: Mapping[str, str],
    **chosen: Any,
) -> None:
    """Start the lab, send the prompts through it under chaos, and show what happened.

    With the sample prompts and the scripted model it ends with a duel: the lab's agent as it ships and a
    careless one under the same faults.
    """
    how = RunOptions(fail_on=None, **chosen)
    prompts = PromptsOptions(file, texts, only, match)
    completed = run_in_own_lab(lab_wiring(), prompts, settings, how)
    code, is_sample = completed.code, not (file or texts or only or match or how.subject or how.playbooks)
    scripted = completed.saved.plan.configuration.settings.model == "scripted"
    if duel and is_sample and scripted and code == 0 and not how.as_json:
        from wirefault.cli.duel import run_duel

        code = run_duel(plain_console(), completed.run_id, environ_below(how.out), how.toxiproxy)
    sys.exit(code)
