"""``wirefault lab up|down|status``: a lab that stays up."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from pathlib import Path

import click

from wirefault.cli.lab_extra import require_lab
from wirefault.lab import daemon
from wirefault.lab.addresses import address_rows, moved_ports
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.plain_table import table_lines, width_of
from wirefault.settings.configuration import load_configuration
from wirefault.state.state import check_version
from wirefault.subjects.surroundings import link_variables
from wirefault.wiring.topology import Topology


@click.group("lab")
def lab_command() -> None:
    """A lab that stays up, to play with."""


@lab_command.command("up")
@click.option("--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL")
@click.option(
    "--wiring", type=click.Path(path_type=Path), help="the wiring file [WIRING]; default: the lab's own"
)
def _up(toxiproxy: str, wiring: Path | None) -> None:
    """Start a lab and leave it running; then: wirefault run.

    It prints a line for a shell for each link: whoever calls these addresses crosses the lab. Faults that are
    set on it (wirefault faults set) strike that traffic, too, while no run is in progress.
    """
    require_lab()
    configuration = load_configuration({**os.environ, **({"WIRING": str(wiring)} if wiring else {})})
    choose_toxiproxy(toxiproxy, configuration.environ)
    check_version(configuration.state)
    code = daemon.bring_up(configuration, toxiproxy, print_to_stderr)
    if code == 0:
        _print_addresses(load_configuration(os.environ).topology)
    sys.exit(code)


def _print_addresses(topology: Topology) -> None:
    width, moved = width_of(sys.stdout), moved_ports(topology)
    for line in table_lines(("link", "agent dials", "gateway", "upstream"), address_rows(topology), width):
        click.echo(line)
    click.echo(f"manager {topology.manager.url}   Toxiproxy {topology.toxiproxy}")
    for link in topology.links:
        for name, value in link_variables(link, topology).items():
            click.echo(f"export {name}={shlex.quote(value)}")
    if moved:
        click.echo(textwrap.fill(f"ports that were taken, and are moved: {', '.join(moved)}", width))


@lab_command.command("down")
def _down() -> None:
    """Heal and stop the lab that is up."""
    sys.exit(daemon.take_down(load_configuration(os.environ), print_to_stderr))


@lab_command.command("status")
def _status() -> None:
    """Show the lab that is up: addresses, attempt, toxics desired and observed."""
    sys.exit(daemon.print_status(load_configuration(os.environ), click.echo))
