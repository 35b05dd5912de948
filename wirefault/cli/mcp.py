"""``wirefault mcp``: a prefix for an MCP server's command, and a whole client's configuration wrapped."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from wirefault.cli.help import Command, option
from wirefault.core.errors import InputError
from wirefault.core.files import read_input

_PATH = click.Path(path_type=Path)


@click.command(
    "mcp",
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(
        "wirefault mcp --link files",
        "wirefault mcp --lab ~/my-lab/state/lab.json --link files -- npx -y my-mcp-server",
        "wirefault mcp --config ~/.cursor/mcp.json --wiring mcp.yaml > wrapped.json",
    ),
)
@option("--lab", default="", help="Use the lab with this id or file.  [default: the one that is up]")
@option("--link", default="", help="Use this link of the lab's wiring.")
@option(
    "--config",
    type=_PATH,
    metavar="FILE",
    help="Print this client's configuration (JSON or TOML) with every server behind the lab.",
)
@option("--wiring", type=_PATH, metavar="FILE", help="With --config: write the wiring that the lab needs.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def mcp_command(
    lab: str, link: str, config: Path | None, wiring: Path | None, command: tuple[str, ...]
) -> None:
    """Start an MCP server over stdio for its client, and send their messages through the lab.

    It replaces the server's command in the client's configuration; --config does that for all of its servers.
    COMMAND, after --, starts the server; without it the wiring's links.NAME.mcp.command does.
    """
    if config is not None:
        if link or command:
            raise InputError("--config wraps every server of FILE: leave out --link and COMMAND")
        _print_wrapped(config, wiring, lab)
        return
    if wiring is not None:
        raise InputError("--wiring goes with --config")
    if not link:
        raise InputError("missing --link NAME, or --config FILE for a client's whole configuration")
    from wirefault.subjects.stdio_shim.relay import run_shim

    sys.exit(run_shim(lab, link, command))


def _print_wrapped(file: Path, wiring: Path | None, lab: str) -> None:
    """Print the wrapped configuration, and on standard error what was done and what comes next."""
    from wirefault.core.yaml_text import dump_yaml
    from wirefault.subjects.stdio_shim.client_config import read_client_config, wrap_servers
    from wirefault.subjects.surroundings import address_in_lab, wirefault_words

    try:
        text = read_input(file, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{file}: cannot be read: {reason}") from None
    data = read_client_config(text, str(file))
    program = [*wirefault_words(), "mcp"]
    wrapped = wrap_servers(data, str(file), program, lab, partial(address_in_lab, lab))
    links = dump_yaml({"links": wrapped.links}) if wrapped.links else ""
    if wiring is not None and links:
        try:
            with wiring.open("x", encoding="utf-8") as out:
                out.write(links)
        except FileExistsError:
            raise InputError(f"--wiring {wiring}: this file exists; name a new one") from None
        except OSError as error:
            raise InputError(f"--wiring {wiring}: cannot be written: {error.strerror}") from None
    click.echo(wrapped.text(str(file)))
    click.echo(f"behind the lab: {', '.join(wrapped.wrapped) or 'none'}", err=True)
    for line in wrapped.left:
        click.echo(f"left as it is: {line}", err=True)
    if not links:
        return
    if wiring is None:
        click.echo(f"the lab's wiring needs these links (--wiring FILE writes them):\n{links}", err=True)
    name = wiring or "FILE"
    again = f", then wirefault mcp --config {file} again" if wrapped.needs_lab else ""
    click.echo(f"next: wirefault lab up --wiring {name}{again}", err=True)
