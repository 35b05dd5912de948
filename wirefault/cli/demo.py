"""``wirefault demo``: the lab that ships, under chaos."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from wirefault.cli.help import Command
from wirefault.cli.options import (
    PromptsOptions,
    RunOptions,
    charts_option,
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
from wirefault.cli.running import run_in_own_lab
from wirefault.wiring.wiring import lab_wiring


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
    charts_option(True), json_option, toxiproxy_option,
)  # fmt: skip
def demo_command(
    file: Path | None, texts: tuple[str, ...], only: tuple[str, ...], match: str, **chosen: Any
) -> None:
    """Start the lab, send the prompts through it under chaos, and show what happened."""
    names = ("toxiproxy", "out", "as_json", "workers", "subject", "charts", "playbooks")
    how = RunOptions(**{name: chosen.pop(name) for name in names})
    prompts = PromptsOptions(file, texts, only, match)
    sys.exit(run_in_own_lab(lab_wiring(), prompts, chosen, how).code)
