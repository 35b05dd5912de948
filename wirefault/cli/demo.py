"""``wirefault demo``: ``fly`` with the lab's own wiring."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wirefault.cli.experiment_options import workers_option
from wirefault.cli.run_in_lab import RunOptions, run_in_own_lab
from wirefault.cli.run_options import (
    PromptsOptions,
    lab_options,
    prompts_options,
    setting_options,
    subject_option,
)
from wirefault.wiring.wiring import lab_wiring


@click.command("demo")
@setting_options
@prompts_options
@subject_option
@lab_options
@workers_option
def demo_command(
    prompts: PromptsOptions,
    subject: str | None,
    toxiproxy: str,
    out: Path | None,
    charts: bool,
    as_json: bool,
    workers: str,
    **settings: str | None,
) -> None:
    """Start a lab, send the prompts through it under chaos, show what happened, take the lab down."""
    options = RunOptions(subject, toxiproxy, out, charts, as_json, workers)
    sys.exit(run_in_own_lab(lab_wiring(), prompts, settings, options).code)
