"""``wirefault memory``: what the recorded runs taught about each component and fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import Group, option
from wirefault.cli.options import environ_below, logs_in, recorded_json_option, recorded_out_option
from wirefault.core.errors import InputError, nearest

if TYPE_CHECKING:
    from wirefault.memory.knowledge import Knowledge
    from wirefault.memory.store import Memory
    from wirefault.stats.rates import Share

_MAX_RUNS = 3
# ids to suggest from a long list
_MAX_SUGGESTED = 8


@click.group("memory", cls=Group)
def memory_command() -> None:
    """Show what the recorded runs taught about each component and fault; rebuild it from them."""


@memory_command.command(
    "rebuild", examples=("wirefault memory rebuild", "wirefault memory rebuild --out ../other-lab")
)
@recorded_out_option
@recorded_json_option
def rebuild_command(out: Path | None, as_json: bool) -> None:
    """Read all recorded experiments and runs again, into one file.

    Outcomes given by memory mark stay.
    """
    from wirefault.memory.store import Memory

    memory = Memory(logs_in(environ_below(out)))
    count, skipped = _rebuild(memory, out)
    if as_json:
        _print_object({"file": str(memory.path), "episodes": count, "skipped": skipped})
        return
    for name, reason in skipped.items():
        click.echo(f"skipped {name}: {reason}", err=True)
    click.echo(f"{memory.path}: {count} episodes of {len(memory.sources())} recordings")


@memory_command.command(
    "show",
    examples=("wirefault memory show", "wirefault memory show weather"),
)
@click.argument("component", required=False)
@recorded_out_option
@recorded_json_option
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write all of it as one page.")
def show_command(component: str | None, out: Path | None, as_json: bool, html: Path | None) -> None:
    """Show links, models and subjects by fault; with COMPONENT, what was learned, with its runs.

    COMPONENT is the name of a link, a tool (as LINK TOOL), a model or a subject, or the start of one.
    """
    from wirefault.memory.document import memory_document
    from wirefault.memory.knowledge import known_components

    memory = _built(out)
    newer = _newer(memory, out)
    if html is not None or as_json:
        environ = environ_below(out)
        document = memory_document(memory, logs_in(environ), environ, newer)
        known = document.known if component is None else _of_component(document.known, component)
        if html is not None:
            from wirefault.report.page.memory import memory_content
            from wirefault.report.page.write import write_page_to

            write_page_to(memory_content(document), html)
            click.echo(f"page: {html}", err=True)
        if as_json:
            _print_object(replace(document, known=known).as_json())
            return
    else:
        known = known_components(memory.episodes())
        known = known if component is None else _of_component(known, component)
    if not known:
        click.echo("no fault was delivered in the remembered episodes")
    elif component is None:
        _show_table(each for each in known if not each.component.startswith("tool "))
    for each in known if component is not None else ():
        _show_known(each)
    if newer:
        click.echo(f"not remembered: {_listed(newer)}; run: wirefault memory rebuild")


@memory_command.command(
    "similar", examples=("wirefault memory similar latest", "wirefault memory similar latest --json")
)
@click.argument("run")
@recorded_out_option
@recorded_json_option
def similar_command(run: str, out: Path | None, as_json: bool) -> None:
    """Show the experiments that are similar to RUN, with their outcomes.

    By type of fault and target (0.3 each), names of parameters and affected components (0.2 each); at least
    0.7 together.
    """
    from wirefault.memory.trials import similar_trials, trials_in

    memory = _built(out)
    name = _source(memory, run, out)
    trials = trials_in(memory.episodes(), memory.own_outcomes())
    similar = [(each, similar_trials(each, trials)) for each in trials if each.experiment_id == name]
    if as_json:
        rows = [
            {**asdict(each), "similar": [{"similarity": how, **asdict(other)} for how, other in others]}
            for each, others in similar
        ]
        _print_object({"trials": rows})
        return
    if not similar:
        click.echo(f"no fault was delivered in {name}")
    for each, others in similar:
        click.echo(f"{each.experiment_type} on {each.target_component}: {each.outcome}")
        for how, other in others:
            place = f"{other.experiment_id} {other.arm}".rstrip()
            click.echo(f"  {how:.2f}  {place}: {other.outcome}, {other.episodes} episodes")
        if not others:
            click.echo("  no similar experiment")


@memory_command.command(
    "mark", examples=("wirefault memory mark latest 'wrong model'", "wirefault memory mark latest ''")
)
@click.argument("run")
@click.argument("outcome")
@recorded_out_option
def mark_command(run: str, outcome: str, out: Path | None) -> None:
    """Give an experiment or a run an OUTCOME of yours, instead of the derived one.

    An empty OUTCOME takes it back.
    """
    memory = _built(out)
    name = _source(memory, run, out)
    memory.mark(name, outcome.strip())
    click.echo(f"{name}: {outcome.strip() or 'outcome as derived'}")


def _built(out: Path | None) -> Memory:
    """The memory, built if there is none yet. Raises ``InputError`` without recordings."""
    from wirefault.memory.store import Memory

    memory = Memory(logs_in(environ_below(out)))
    if not memory.exists:
        _rebuild(memory, out)
    return memory


def _rebuild(memory: Memory, out: Path | None) -> tuple[int, dict[str, str]]:
    from wirefault.memory.histories import rebuilt, sources_in

    environ = environ_below(out)
    logs = logs_in(environ)
    if not sources_in(logs):
        raise InputError(f"{logs}: no runs; start one with: wirefault demo")
    return rebuilt(memory, logs, environ)


def _newer(memory: Memory, out: Path | None) -> list[str]:
    from wirefault.memory.histories import unremembered

    return unremembered(memory, logs_in(environ_below(out)))


def _source(memory: Memory, run: str, out: Path | None) -> str:
    from wirefault.experiments.evidence import latest_id

    sources = memory.sources()
    name = latest_id(logs_in(environ_below(out))) if run == "latest" else run
    if name not in sources:
        hint = nearest(name, sources[-_MAX_SUGGESTED:]) or "; run: wirefault memory rebuild"
        raise InputError(f"memory has no experiment or run {name!r}{hint}")
    return name


def _of_component(known: Sequence[Knowledge], name: str) -> list[Knowledge]:
    """By the exact name, with or without its kind; else by its start."""
    names = dict.fromkeys(each.component for each in known)
    exact = [each for each in names if name in (each, each.partition(" ")[2])]
    chosen = exact or [each for each in names if each.partition(" ")[2].startswith(name)]
    if not chosen:
        short = [each.partition(" ")[2] for each in names]
        raise InputError(f"memory has no faults at a component {name!r}{nearest(name, short)}")
    return [each for each in known if each.component in chosen]


def _show_table(known: Iterable[Knowledge]) -> None:
    from wirefault.report.plain_table import table_lines, width_of

    head = ("component", "fault", "episodes", "success with", "without", "effect, paired", "recovery")
    rows = [
        (
            each.component,
            each.fault,
            str(each.episodes),
            _share_text(each.with_fault),
            _share_text(each.without),
            _effect_text(each),
            _recovery_text(each),
        )
        for each in known
    ]
    for line in table_lines(head, rows, width_of(sys.stdout)):
        click.echo(line)


def _show_known(known: Knowledge) -> None:
    from wirefault.memory.learnings import learnings

    results = ", ".join(f"{count} {name}" for name, count in sorted(known.results.items()))
    click.echo(f"{known.component} under {known.fault}: {known.episodes} episodes ({results})")
    click.echo(f"  success with it {_share_text(known.with_fault)}, without {_share_text(known.without)}")
    for each in learnings(known):
        click.echo(f"  {each.text} [{_listed(each.runs)}]")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_RUNS
    return ", ".join(names[:_MAX_RUNS]) + (f" and {more} more" if more > 0 else "")


def _share_text(share: Share) -> str:
    from wirefault.memory.knowledge import CONFIDENCE
    from wirefault.stats.rates import percent

    if share.rate is None or (ends := share.interval(CONFIDENCE)) is None:
        return "no data"
    low, high = ends
    return f"{percent(share.rate)} of {share.n} ({100 * low:.3g} to {100 * high:.3g})"


def _effect_text(known: Knowledge) -> str:
    effect = known.effect
    if effect is None:
        return "no pairs"
    return f"{100 * effect.value:+.3g} ({100 * effect.low:.3g} to {100 * effect.high:.3g}), {effect.n} pairs"


def _recovery_text(known: Knowledge) -> str:
    from wirefault.judging.findings.finding import span_in_words

    recovery = known.recovery
    if recovery.seconds is None:
        return "no outage"
    return f"{'at least ' if recovery.at_least else ''}{span_in_words(recovery.seconds)}"


def _print_object(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
