"""``wirefault rerun``: an experiment, or some of its episodes, repeated from the saved plan."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wirefault.cli.experiment import environ_of, run_and_show, saved_anew
from wirefault.cli.experiment_options import ExperimentOptions, rerun_options, retry_invalid_option
from wirefault.experiments.recorded import repeated_part, saved_plan


@click.command("rerun")
@rerun_options
@retry_invalid_option
@click.option(
    "--episode", "episodes", metavar="ID|N", multiple=True, help="this one alone; may be given several times"
)
@click.option("--arm", "arms", multiple=True, help="this arm and the controls alone; several times, too")
@click.argument("experiment", metavar="ID|RUN|latest")
def rerun_command(
    experiment: str,
    episodes: tuple[str, ...],
    arms: tuple[str, ...],
    toxiproxy: str,
    out: Path | None,
    verbose: bool,
    workers: str,
    retry_invalid: int,
    engine: str,
) -> None:
    """Fly an experiment, or some of its episodes, again from its saved plan, with the same draws.

    It has the same arms, prompts, seed and settings. An episode by itself meets the same faults as before,
    since they are drawn by its key. The id of a run of one of its arms stands for that arm.
    """
    environ = environ_of(out)
    plan, flown = saved_plan(Path(environ.get("LOGS_DIR") or "logs"), experiment, environ)
    plan = repeated_part(plan, episodes, arms or flown)
    options = ExperimentOptions(
        {}, toxiproxy, out, verbose=verbose, workers=workers, retry_invalid=retry_invalid, engine=engine
    )
    sys.exit(run_and_show(saved_anew(plan), options).code)
