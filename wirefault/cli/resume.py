"""``wirefault resume``: an experiment gone on with from its saved plan."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wirefault.cli.experiment import run_and_show, saved_experiment
from wirefault.cli.experiment_options import ExperimentOptions, rerun_options, retry_invalid_option


@click.command("resume")
@rerun_options
@retry_invalid_option
@click.argument("experiment", metavar="ID|latest")
def resume_command(
    experiment: str,
    toxiproxy: str,
    out: Path | None,
    verbose: bool,
    workers: str,
    retry_invalid: int,
    engine: str,
) -> None:
    """Go on with an experiment that was broken off: what it has flown to its end stays as it is."""
    saved = saved_experiment(experiment, out)
    options = ExperimentOptions(
        {}, toxiproxy, out, verbose=verbose, workers=workers, retry_invalid=retry_invalid, engine=engine
    )
    sys.exit(run_and_show(saved, options).code)
