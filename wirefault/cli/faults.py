"""``wirefault faults``: the catalogue, fault sets on a running lab, and random fault sets."""

from __future__ import annotations

import inspect
import json
import math
import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Group, option
from wirefault.core.errors import InputError, nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import short_repr
from wirefault.faults.base import Fault
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import MAX_CHAOS_LEVEL, FaultSet, FaultSetError, capped, scaled
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
from wirefault.toxiproxy.toxics.base import ONLY_EMBEDDED, Toxic

if TYPE_CHECKING:
    from wirefault.lab.live import LiveFaultsClient


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):  # click accepts nan in any range
        raise click.BadParameter("nan is not in the range 0<=x<=1.")
    return value


_level = option(
    "--chaos-level",
    type=click.FloatRange(0, MAX_CHAOS_LEVEL),
    default=1.0,
    callback=_number,
    show_default=True,
    help="Multiply every probability by this.",
)


@click.group("faults", cls=Group, invoke_without_command=True)
@click.pass_context
def faults_command(context: click.Context) -> None:
    """List, show and draw faults and fault sets; set or clear them on a lab that is up."""
    if context.invoked_subcommand is None:
        context.invoke(_list)


@faults_command.command("list", examples=("wirefault faults list", "wirefault faults list | grep mcp"))
def _list() -> None:
    """List the faults and the presets; the same as without a subcommand."""
    rows = [[_unmarked(cell) for cell in row] for row in list_rows()]
    _print(("fault", "where", "family", "what it does"), rows)
    click.echo()
    _print(("preset", "meaning"), [(name, describe_preset(name)) for name in preset_names()])
    click.echo("\nmore: wirefault faults show NAME")


@faults_command.command(
    "show", examples=("wirefault faults show lose_reply", "wirefault faults show heavy --chaos-level 0.5")
)
@click.argument("name")
@_level
def _show(name: str, chaos_level: float) -> None:
    """Show a fault, or a preset's or a file's entries with their true rates. NAME: any of these."""
    if name in REGISTRY:
        _print_fault(REGISTRY[name])
        return
    if toxic := next((toxic for toxic in TOXICS if toxic.kind == name), None):
        _print_toxic(toxic)
        return
    if not names_set(name):
        raise FaultSetError(f"unknown fault, toxic, preset or file {short_repr(name)}{_names_like(name)}")
    fault_set = find_set(name)
    if fault_set.description:
        click.echo(textwrap.fill(" ".join(fault_set.description.split()), width_of(sys.stdout)) + "\n")
    if name == "recovery-lab" and chaos_level:  # drawn by messages, not by tries
        from wirefault.conversation.preset_text import preset_text

        click.echo(preset_text(chaos_level))
        return
    print_set(fault_set, chaos_level)
    click.echo(
        f"\nchaos level {chaos_level:g}: probabilities are the file's x {chaos_level:g}. Delays always act."
        " Of the other faults at most one\nchanges a try: the first in this order that can."
        " A rate is the share of the tries that an entry can\nchange under its conditions and that earlier"
        " entries leave to it; it is a range if an earlier entry\nacts on some of them. Errors of ERROR_PROB"
        " come first on tool links. Toxics of TOXIC_PROB act\nindependently."
    )


def _names_like(name: str) -> str:
    """Return the closest name, else all names in columns."""
    names = [*REGISTRY, *preset_names()]
    hint = nearest(name, names)
    if "did you mean" in hint:
        return hint
    width = max(map(len, names)) + 2
    columns = max(width_of(sys.stderr) // width, 1)
    rows = -(-len(names) // columns)
    lines = ("".join(f"{each:<{width}}" for each in names[row::rows]).rstrip() for row in range(rows))
    return "; known are:\n" + "\n".join(f"  {line}" for line in lines)


def _print_fault(kind: type[Fault]) -> None:
    """Print its page in the catalogue, without Markdown."""
    click.echo(f"{kind.name}   ({place_of(kind)}){from_package(kind.name)}\n")
    click.echo(f"{_unmarked(inspect.getdoc(kind) or '')}\n")
    rows = [[_unmarked(cell) for cell in row] for row in parameter_rows(kind)]
    if rows:
        _print(("parameter", "default", "range", "meaning"), rows)
    links = "model" if kind.where == "model" else "tools"
    click.echo(f"\nin a fault set:\n  faults:\n    - {{fault: {kind.name}, links: {links}, with: {{}}}}")


def _print_toxic(toxic: Toxic) -> None:
    """Print its section of the catalogue."""
    click.echo(f"{toxic.kind}   (toxic, on connections)\n")
    click.echo(f"{toxic.meaning[0].upper()}{toxic.meaning[1:]}.\n")
    rows = [
        (a.name + (" (main)" if a.name == toxic.main else ""), a.unit, str(a.default), a.meaning)
        for a in toxic.attributes
    ]
    if rows:
        _print(("attribute", "unit", "default", "meaning"), rows)
    signature = " ".join((type(toxic).observed.__doc__ or "").split())
    click.echo(f"\ncounts as observed when: {_unmarked(signature)}")
    if not toxic.in_toxiproxy:
        click.echo(f"\n{ONLY_EMBEDDED}")
    click.echo(f"\nin a fault set:\n  toxics:\n    - {{toxic: {toxic.kind}, links: tools, with: {{}}}}")


def _unmarked(text: str) -> str:
    return text.replace("`", "")


def print_set(fault_set: FaultSet, level: float = 1.0, err: bool = False) -> None:
    """Print the set's entries with their true rates at this chaos level, to standard output or standard
    error.
    """
    rows = set_rows(fault_set, level)
    _print(("entry", "links", "true rate", "conditions"), rows, err)
    if not rows:
        click.echo("(none of its faults can occur)", err=err)
    if over := capped(fault_set, level):
        click.echo(f"always act at this level, the chance is capped: {', '.join(over)}", err=err)


@faults_command.command(
    "set",
    examples=("wirefault faults set lost-replies", "wirefault faults set my-faults.yaml --chaos-level 0.5"),
)
@click.argument("fault_set")
@_level
def _set(fault_set: str, chaos_level: float) -> None:
    """Set the faults of the lab that is up. FAULT_SET: a preset's name or a file."""
    live = _live()
    chosen = scaled(find_set(fault_set, live.links), chaos_level)
    if not chosen.can_be_met:
        raise FaultSetError(
            f"{fault_set!r}: none of its faults can occur; to remove the current ones: wirefault faults clear"
        )
    name = "an inline set" if is_text(fault_set) else fault_set
    source = name if chaos_level == 1 else f"{name} at chaos level {chaos_level:g}"
    _print_answer(live.set(chosen.dump(), source))


@faults_command.command(
    "clear", examples=("wirefault faults clear", "wirefault faults clear && wirefault faults status")
)
def _clear() -> None:
    """Remove the fault set of the lab that is up, and of a run in progress.

    The draws of TOXIC_PROB and ERROR_PROB stay.
    """
    _print_answer(_live().clear())


@faults_command.command("status", examples=("wirefault faults status", "watch wirefault faults status"))
def _status() -> None:
    """Show the faults in force on the lab that is up."""
    live = _live()
    answer = live.status()
    if not live.of_this_folder:
        click.echo(f"the lab at {live.address}, which wirefault lab up did not start from this folder:")
    _print_answer(answer)


def _live() -> LiveFaultsClient:
    # HTTP client and settings are slow to import, and the catalogue does not need them
    from wirefault.lab.live import LiveFaultsClient, published_manager
    from wirefault.settings.configuration import load_configuration

    configuration = load_configuration(os.environ)
    manager, state = configuration.topology.manager, configuration.state.parent
    return LiveFaultsClient(published_manager(state) or manager, state, configuration.wiring.links)


def _print_answer(answer: dict[str, Any]) -> None:
    from wirefault.history.logs import strip_control  # slow to import, and the catalogue does not need it

    number, where = answer["number"], answer["from"]
    if not number:
        click.echo("no faults were set on this lab; each run uses the faults in its settings")
        return
    what = f"faults of {answer['source']}" if answer["faults"] else "no faults"
    click.echo(strip_control(f"configuration {number}: {what}; in force {where}"))
    if answer.get("note"):
        click.echo(strip_control(answer["note"]))
    if answer["faults"]:
        print_set(read_canonical(json.dumps(answer["faults"])))
    if answer.get("live"):
        for line in _live_lines(answer["live"]):
            click.echo(strip_control(line))


def _live_lines(live: Mapping[str, Any]) -> Iterator[str]:
    """Return lines on live traffic outside any run, and its faults."""
    if "error" in live:
        yield f"cannot read the faults of live traffic: {live['error']}"
        return
    requests = ", ".join(f"{link} {count}" for link, count in live["requests"].items())
    yield f"live traffic ({live['run']}): {requests or 'no requests yet'}"
    for row in live["faults"]:
        yield f"  {row['fault']} on {row['link']}: met {row['met']}, injected {row['injected']}"


def _print(head: Sequence[str], rows: Iterable[Sequence[str]], err: bool = False) -> None:
    first, *others = table_lines(head, rows, width_of(sys.stderr if err else sys.stdout))
    click.secho(first, bold=True, err=err)
    for line in others:
        click.echo(line, err=err)


_PATH = click.Path(path_type=Path)


@faults_command.command(
    "draw",
    examples=("wirefault faults draw drawn", "wirefault faults draw drawn --n 50 --seed 7 --space llm"),
)
@option("--n", "count", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Draw this many.")
@option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Draw with this seed.")
@option(
    "--space",
    type=click.Choice(["default", "llm", "stream", "tools", "network", "stress"]),
    default="default",
    show_default=True,
    help="Draw from all faults or one kind of fault; stress: many at once.",
)
@option("--wiring", type=_PATH, help="Draw for the links of this wiring file.  [default: the lab's own]")
@option("--prompts", type=_PATH, help="Send the prompts of this file.  [default: the wiring's]")
@option("--only", metavar="ID|N", multiple=True, help="Send only this prompt. Repeatable.")
@click.argument("folder", type=_PATH)
def _draw(
    count: int,
    seed: int,
    space: str,
    wiring: Path | None,
    prompts: Path | None,
    only: tuple[str, ...],
    folder: Path,
) -> None:
    """Draw fault sets at random, and save each as an experiment in FOLDER. Runs nothing.

    The same seed and space give the same files: number 3 of 10 is number 3 of 100.
    """
    import yaml

    from wirefault.core.lab_folder import sample_prompts
    from wirefault.experiments.fuzz import drawn_experiment
    from wirefault.judging.oracle.expect import expect_check
    from wirefault.wiring.prompts import load_prompts
    from wirefault.wiring.wiring import lab_wiring, load_wiring

    wired = load_wiring(wiring) if wiring else lab_wiring()
    # report prompts that cannot run now once, not per file
    load_prompts(prompts or wired.prompts or sample_prompts(), only, check_expect=expect_check(wired.links))
    more: dict[str, Any] = {}
    for key, path in (("wiring", wiring), ("prompts", prompts)):
        if path is not None:
            more[key] = os.path.relpath(path, folder)
    more |= {"only": list(only)} if only else {}
    for number in range(1, count + 1):
        drawn = drawn_experiment(seed, number, space, wired.links)
        text = yaml.safe_dump({**drawn, **more}, sort_keys=False, allow_unicode=True, width=100)
        _write_experiment(folder / f"fuzz-{space}-{seed}-{number:04}.yaml", text)
    click.echo(f"{count} experiments in {folder}; next: wirefault run {shlex.quote(str(folder))}")


def _write_experiment(path: Path, text: str) -> None:
    """Write the file. Raises ``InputError`` if a file of this name has other content."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and read_input(path) != text:
            raise InputError(f"{path}: already exists with other content; remove it, or name another folder")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from None
