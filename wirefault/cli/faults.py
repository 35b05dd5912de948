"""``wirefault faults``: the catalogue, and fault sets on a lab that is up."""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from wirefault.core.errors import nearest
from wirefault.core.plain_data import short_repr
from wirefault.faults.base import Fault
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError, scaled
from wirefault.faults.sets.presets import (
    describe_preset,
    find_set,
    is_text,
    names_set,
    preset_names,
    read_canonical,
)
from wirefault.report.fault_catalogue import from_package, list_rows, parameter_rows, place_of, set_rows
from wirefault.report.plain_table import table_lines, width_of
from wirefault.toxiproxy.toxics import TOXICS

if TYPE_CHECKING:
    from wirefault.lab.live import LiveFaultsClient


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):  # click takes it to be in any range
        raise click.BadParameter("nan is not in the range 0<=x<=1.")
    return value


_level = click.option(
    "--chaos-level",
    type=click.FloatRange(0, 1),
    default=1.0,
    callback=_number,
    help="times every probability: 1 as written",
)


@click.group("faults", invoke_without_command=True)
@click.pass_context
def faults_command(context: click.Context) -> None:
    """List the faults; show one, or a fault set; set or clear them on a lab that is up."""
    if context.invoked_subcommand is None:
        context.invoke(_list)


@faults_command.command("list")
def _list() -> None:
    """List the faults and the presets; the same as without a subcommand."""
    rows = [[_unmarked(cell) for cell in row] for row in list_rows()]
    _print(("fault", "where", "family", "what it does"), rows)
    click.echo()
    _print(("preset", "meaning"), [(name, describe_preset(name)) for name in preset_names()])
    click.echo("\nmore: wirefault faults show NAME")


@faults_command.command("show")
@click.argument("name")
@_level
def _show(name: str, chaos_level: float) -> None:
    """Show a fault, or a preset's or a file's entries with their true rates. NAME: any of these."""
    if name in REGISTRY:
        _print_fault(REGISTRY[name])
        return
    if not names_set(name):
        toxics = [toxic.kind for toxic in TOXICS]
        known = (
            "; it is a toxic: see docs/toxics.md"
            if name in toxics
            else nearest(name, (*REGISTRY, *preset_names()))
        )
        raise FaultSetError(f"no fault, preset or file is called {short_repr(name)}{known}")
    fault_set = find_set(name)
    if fault_set.description:
        click.echo(textwrap.fill(" ".join(fault_set.description.split()), width_of(sys.stdout)) + "\n")
    print_set(fault_set, chaos_level)
    click.echo(
        f"\nchaos level {chaos_level:g}: probabilities are the file's x {chaos_level:g}. Delays always act."
        " Of the other faults at most one\nchanges a try, the first in this order that can. A rate is what is"
        " left to an entry, of the tries that its\nconditions allow and that it can change; a range, where an"
        " earlier entry acts on some tries only.\nOn the tools, what ERROR_PROB answers comes before all."
        " TOXIC_PROB comes besides."
    )


def _print_fault(kind: type[Fault]) -> None:
    """Its page in the catalogue, without the marks of Markdown."""
    click.echo(f"{kind.name}   ({place_of(kind)}){from_package(kind.name)}\n")
    click.echo(f"{_unmarked(inspect.getdoc(kind) or '')}\n")
    rows = [[_unmarked(cell) for cell in row] for row in parameter_rows(kind)]
    if rows:
        _print(("parameter", "default", "range", "meaning"), rows)
    links = "model" if kind.where == "model" else "tools"
    click.echo(f"\nin a fault set:\n  faults:\n    - {{fault: {kind.name}, links: {links}, with: {{}}}}")


def _unmarked(text: str) -> str:
    return text.replace("`", "")


def print_set(fault_set: FaultSet, level: float = 1.0, err: bool = False) -> None:
    """Its entries with their true rates at that chaos level, on standard output or standard error."""
    rows = set_rows(fault_set, level)
    _print(("entry", "links", "true rate", "conditions"), rows, err)
    if not rows:
        click.echo("(no fault can be met)", err=err)


@faults_command.command("set")
@click.argument("fault_set")
@_level
def _set(fault_set: str, chaos_level: float) -> None:
    """Set the faults of the lab that is up. FAULT_SET: a preset's name or a file."""
    live = _live()
    chosen = scaled(find_set(fault_set, live.links), chaos_level)
    if not chosen.can_be_met:
        raise FaultSetError(
            f"{fault_set!r}: no fault in it can be met; to remove those set: wirefault faults clear"
        )
    name = "a set given in full" if is_text(fault_set) else fault_set
    source = name if chaos_level == 1 else f"{name} at chaos level {chaos_level:g}"
    _tell(live.set(chosen.dump(), source))


@faults_command.command("clear")
def _clear() -> None:
    """Remove the fault set of the lab that is up, and that of a run in progress.

    What TOXIC_PROB and ERROR_PROB of a run draw stays.
    """
    _tell(_live().clear())


@faults_command.command("status")
def _status() -> None:
    """Show the faults in force on the lab that is up."""
    live = _live()
    answer = live.status()
    if not live.of_this_folder:
        click.echo(f"the lab at {live.address}, which wirefault lab up did not start from this folder:")
    _tell(answer)


def _live() -> LiveFaultsClient:
    # an HTTP client and the settings take longer to import than the catalogue takes to be shown
    from wirefault.core.sockets import Address
    from wirefault.lab.live import LiveFaultsClient
    from wirefault.settings.configuration import load_configuration

    configuration = load_configuration(os.environ)
    manager = configuration.topology.manager
    published = configuration.environ.get("STATUS_PORT", "")  # where Compose has it on this machine
    if published.isdecimal():
        manager = Address(manager.host, int(published))
    return LiveFaultsClient(manager, configuration.state.parent, configuration.wiring.links)


def _tell(answer: dict[str, Any]) -> None:
    from wirefault.history.logs import strip_control  # slow to import, and the catalogue does not need it

    number, where = answer["number"], answer["from"]
    if not number:
        click.echo("no faults were set on this lab; each run has those of its own settings")
        return
    what = f"faults of {answer['source']}" if answer["faults"] else "no faults"
    click.echo(strip_control(f"configuration {number}: {what}; in force {where}"))
    if answer.get("note"):
        click.echo(strip_control(answer["note"]))
    if answer["faults"]:
        print_set(read_canonical(json.dumps(answer["faults"])))
    if answer.get("live"):
        for line in _struck(answer["live"]):
            click.echo(strip_control(line))


def _struck(live: Mapping[str, Any]) -> Iterator[str]:
    """What crossed the lab outside any run, and what struck it."""
    if "error" in live:
        yield f"what was struck cannot be read: {live['error']}"
        return
    requests = ", ".join(f"{link} {count}" for link, count in live["requests"].items())
    yield f"live traffic ({live['run']}): {requests or 'no request yet'}"
    for row in live["faults"]:
        yield f"  {row['fault']} on {row['link']}: met {row['met']}, injected {row['injected']}"


def _print(head: Sequence[str], rows: Iterable[Sequence[str]], err: bool = False) -> None:
    first, *others = table_lines(head, rows, width_of(sys.stderr if err else sys.stdout))
    click.secho(first, bold=True, err=err)
    for line in others:
        click.echo(line, err=err)
