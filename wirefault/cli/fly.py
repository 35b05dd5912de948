"""``wirefault fly``: a subject of one's own over links of one's own."""

from __future__ import annotations

import os
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
from wirefault.core.errors import InputError
from wirefault.wiring.wiring import NO_WIRING, Wiring, load_wiring, with_links, with_subject

_USUAL = Path("wirefault.yaml")


@click.command("fly")
@click.option(
    "--wiring",
    type=click.Path(path_type=Path),
    help=f"the wiring file [WIRING]; default: {_USUAL}, if it is here",
)
@click.option(
    "--link",
    "links",
    metavar="NAME=URL[,DIALECT]",
    multiple=True,
    help="a link, or another upstream for one of the file's; its address is in NAME_URL",
)
@setting_options
@prompts_options
@subject_option
@lab_options
@workers_option
@click.argument("command", nargs=-1)
def fly_command(
    wiring: Path | None,
    links: tuple[str, ...],
    command: tuple[str, ...],
    prompts: PromptsOptions,
    subject: str | None,
    toxiproxy: str,
    out: Path | None,
    charts: bool,
    as_json: bool,
    workers: str,
    **settings: str | None,
) -> None:
    """Fly your own agent over your own links: start a lab, send the prompts, show what happened.

    COMMAND, after --, is run for each prompt; {prompt} in it is the prompt. Without one the wiring's subject
    is flown.
    """
    chosen = _wiring(wiring, links, command)
    if chosen.subject is None and not subject:
        raise InputError(
            f"{chosen.file or 'this flight'}: no subject: name one under `subject`, or give its command"
            " after --"
        )
    if not (prompts.texts or prompts.file or chosen.prompts or os.environ.get("PROMPTS_FILE")):
        raise InputError("no prompts: give --prompt TEXT, --prompts FILE, or `prompts` in the wiring")
    options = RunOptions(subject, toxiproxy, out, charts, as_json, workers)
    sys.exit(run_in_own_lab(chosen, prompts, settings, options).code)


def _wiring(file: Path | None, links: tuple[str, ...], command: tuple[str, ...]) -> Wiring:
    if file is None and os.environ.get("WIRING"):
        file = Path(os.environ["WIRING"])
    if file is None and _USUAL.exists():
        file = _USUAL
    if file is None and not links:
        raise InputError(f"no wiring: name a file with --wiring ({_USUAL} is not here), or links with --link")
    chosen = load_wiring(file) if file else NO_WIRING
    chosen = with_links(chosen, links)
    return with_subject(chosen, command) if command else chosen
