"""``wirefault run``: experiments, or the prompts through a lab that is up, to a subject that is named."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from wirefault.cli.experiment_options import ExperimentOptions, experiment_options, prompts_picked
from wirefault.cli.run_options import PromptsOptions, prompts_options, subject_option
from wirefault.cli.run_process import carry_out, complain
from wirefault.core.errors import USAGE, InputError
from wirefault.lab.run_document import run_document
from wirefault.runner.run import new_run_id
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import SettingsError
from wirefault.wiring.prompts import PromptsError


@click.command("run")
@click.argument("targets", metavar="[FILE|DIR|MODULE:NAME]...", nargs=-1, type=click.Path(path_type=Path))
@experiment_options
@subject_option
@prompts_options
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
def run_command(
    targets: tuple[Path, ...],
    experiment: ExperimentOptions | None,
    subject: str | None,
    prompts: PromptsOptions,
    as_json: bool,
) -> None:
    """Fly experiments to their verdict; or, without any, the prompts through the lab that is up.

    The exit code of experiments is their verdict: 0 held, 1 deviated, 2 unknown.
    """
    if targets:
        if subject or prompts.file or prompts.texts or prompts.match:
            raise InputError(
                "an experiment names its subject and prompts; --only alone can pick some of them"
            )
        options = experiment or ExperimentOptions({})
        options = replace(options, as_json=as_json, changes=options.changes | prompts_picked(prompts.only))
        # not at the top: each run of a lab's agent is this command, and needs no experiments
        from wirefault.cli.experiment import run_experiments

        sys.exit(run_experiments(targets, options))
    if experiment:
        raise InputError("these options are an experiment's: name its file, or see wirefault demo --help")
    sys.exit(_run_in_lab_that_is_up(subject or "", prompts, as_json))


def _run_in_lab_that_is_up(subject: str, prompts: PromptsOptions, as_json: bool) -> int:
    logs = Path(os.environ.get("LOGS_DIR") or "logs")
    try:
        configuration = load_configuration(os.environ)
        logs = configuration.logs
        source = prompts.load(prompts.file or configuration.prompts, configuration.wiring.links).source
    except (SettingsError, PromptsError) as error:
        complain(logs, str(error))
        return USAGE
    settings = configuration.settings
    document = run_document(new_run_id(), settings, source, subject=subject, as_json=as_json)
    return carry_out(configuration, document)
