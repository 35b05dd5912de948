"""``wirefault init``: the lab written into a folder, to play with."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from wirefault.lab.new_folder import FolderInUse, write_lab

_WRITTEN = """\
the lab is in {folder}: all that runs there is yours to change.
  agent/         the agent, its tools, its prompts
  flask_tools/   its services          proxy_manager/  the control plane
  experiments/   experiments, sets     wirefault/     the library
next: {go}wirefault demo        or, in containers: {go}docker compose up"""


@click.command("init")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
def init_command(folder: Path) -> None:
    """Write the lab into a folder to play with: agent, services, prompts, fault sets, Compose files."""
    try:
        write_lab(folder)
    except FolderInUse as error:
        raise click.UsageError(str(error), None) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from None
    go = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    click.echo(_WRITTEN.format(folder="this folder" if folder == Path() else folder, go=go))
