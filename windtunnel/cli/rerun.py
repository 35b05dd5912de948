"""``windtunnel rerun``: an experiment repeated from its saved plan."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from windtunnel.cli.experiment import fly_and_show, saved_anew, saved_experiment
from windtunnel.cli.experiment_options import ExperimentOptions, flying_options


@click.command("rerun")
@flying_options
@click.argument("experiment", metavar="ID|latest")
def rerun_command(experiment: str, toxiproxy: str, out: Path | None, verbose: bool, workers: str) -> None:
    """Fly an experiment again from its saved plan: the same arms, prompts, seed and settings."""
    saved = saved_experiment(experiment, out)
    options = ExperimentOptions({}, toxiproxy=toxiproxy, out=out, verbose=verbose, workers=workers)
    sys.exit(fly_and_show(saved_anew(saved.plan), options).code)
