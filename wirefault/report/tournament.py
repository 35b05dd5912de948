"""A tournament for people: a table of its arms, the pairs, the groups and one sentence of advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from wirefault.experiments.run_tournament import TournamentResult
from wirefault.experiments.tournament import Pairing, Standing, Table
from wirefault.report.resilience import figure_text
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

_TITLES: Mapping[str, str] = {
    "success_rate": "success_rate",
    "no_effect": "orders without effect",
    "one_effect": "with one",
    "more_effects": "with more",
    "honest": "honest claim",
    "requests_per_call": "requests per call",
    "retry_after_kept": "Retry-After kept",
    **{name: name for name in ("mttr", "added_seconds", "added_tokens", "added_cost")},
}
_MAX_DIFFERENT = 5


def layers_text(standing: Standing) -> str:
    """Return which layers sent requests again, for each call."""
    return ", ".join(f"{layer} {share:.3g}" for layer, share in standing.repeated_by.items()) or "none"


def pair_text(pair: Pairing) -> str:
    """Return the difference of two arms in words, with its interval."""
    value = "open" if pair.success is None else f"{100 * pair.success:+.3g}"
    ends = ", ".join(f"{100 * end:+.3g}" for end in pair.interval)
    verdict = "differ" if pair.differs else "alike" if pair.is_alike else "not told apart"
    more = f", about {pair.needed} pairs would decide" if pair.needed else ""
    return f"{value} points [{ends}], n = {pair.n}: {verdict}{more}"


def schedule_lines(table: Table) -> Iterator[str]:
    """Yield whether the arms met the same faults on the calls that they share."""
    calls, different = table.schedules.shared, table.schedules.different
    if not calls:
        yield "identical schedules: the arms share no call"
    elif not different:
        yield f"identical schedules: the same faults on all {calls} calls that arms share"
    else:
        yield f"schedules differ on {len(different)} of {calls} calls that arms share (order or time decides)"
        yield from (f"  {line}" for line in different[:_MAX_DIFFERENT])


def figure_names(table: Table) -> list[str]:
    """Return the figures that any arm has data for."""
    return [name for name in _TITLES if any(each.figures[name].n for each in table.standings)]


def rows_of(table: Table) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns that any arm has data for, and a row for each arm."""
    names = figure_names(table)
    rows: list[Sequence[str]] = [
        (each.arm, *(figure_text(each.figures[name]) for name in names), layers_text(each))
        for each in table.standings
    ]
    return ("arm", *(_TITLES[name] for name in names), "sent again by, per call"), rows


def group_lines(table: Table) -> Iterator[str]:
    """Yield the arms that cannot be told apart."""
    for group in table.groups:
        if len(group) > 1:
            yield f"not told apart: {', '.join(group)}"


def print_tournament(console: Console, result: TournamentResult) -> None:
    """Print each table of arms: a block of figures for each arm, the pairs and the advice."""
    for table in result.tables():
        sure = percent(table.confidence)
        console.print()
        console.print(Text(f"tournament under {table.under}, {sure} intervals", style="bold"))
        columns, rows = rows_of(table)
        grid = new_table("figure", *(row[0] for row in rows), text_columns=tuple(range(len(rows) + 1)))
        for column in grid.columns:
            column.no_wrap = False
        for place, name in enumerate(columns[1:], start=1):
            grid.add_row(Text(name), *(Text(one_line(row[place])) for row in rows))
        console.print(grid)
        for pair in table.pairings:
            console.print(Text(f"{pair.first} - {pair.second}: {pair_text(pair)}"), soft_wrap=True)
        for line in (*group_lines(table), *schedule_lines(table)):
            console.print(Text(line), soft_wrap=True)
        console.print(Text(table.advice, style="bold"), soft_wrap=True)
