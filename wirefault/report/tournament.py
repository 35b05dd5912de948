"""A tournament for people: a table of its arms, the pairs, the groups and one sentence of advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from wirefault.experiments.run_tournament import TournamentResult
from wirefault.experiments.tournament import Figure, Pairing, Standing, Table
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

COLUMNS: Mapping[str, str] = {
    "success": "success",
    "no_effect": "orders without effect",
    "one_effect": "with one",
    "more_effects": "with more",
    "honest": "honest claim",
    "requests_per_call": "requests per call",
    "retry_after_kept": "Retry-After kept",
    "mttr": "time to recovery",
    "seconds_to_recover": "seconds added",
    "tokens_to_recover": "tokens added",
    "usd_to_recover": "USD added",
}
_RATES = frozenset({"success", "no_effect", "one_effect", "more_effects", "honest", "retry_after_kept"})
_UNITS: Mapping[str, str] = {"mttr": " s", "seconds_to_recover": " s", "usd_to_recover": " USD"}
_MAX_DIFFERENT = 5


def figure_text(name: str, figure: Figure) -> str:
    """Return the figure with its interval and n; ``no data`` without episodes."""
    if not figure.n:
        return "no data"
    value = "open" if figure.value is None else _number(name, figure.value)
    if figure.low is None and figure.high is None:
        return f"{value} (n = {figure.n}, too few for an interval)"
    ends = [("-inf", "inf")[i] if end is None else _number(name, end) for i, end in enumerate(_ends(figure))]
    return f"{value} [{ends[0]}, {ends[1]}] n = {figure.n}"


def _ends(figure: Figure) -> tuple[float | None, float | None]:
    return figure.low, figure.high


def _number(name: str, value: float) -> str:
    return percent(value) if name in _RATES else f"{value:.3g}{_UNITS.get(name, '')}"


def layers_text(standing: Standing) -> str:
    """Return which layers sent requests again, for each call."""
    return ", ".join(f"{layer} {share:.3g}" for layer, share in standing.repeated_by.items()) or "none"


def pair_text(pair: Pairing) -> str:
    """Return the difference of two arms in words, with its interval."""
    figure = pair.success
    value = "open" if figure.value is None else f"{100 * figure.value:+.3g}"
    ends = ", ".join("?" if end is None else f"{100 * end:+.3g}" for end in _ends(figure))
    verdict = "differ" if pair.differs else "alike" if pair.is_alike else "not told apart"
    more = f", about {pair.needed} pairs would decide" if pair.needed else ""
    return f"{value} points [{ends}], n = {figure.n}: {verdict}{more}"


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
    return [name for name in COLUMNS if any(each.figures[name].n for each in table.standings)]


def rows_of(table: Table) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns that any arm has data for, and a row for each arm."""
    names = figure_names(table)
    rows: list[Sequence[str]] = [
        (each.arm, *(figure_text(name, each.figures[name]) for name in names), layers_text(each))
        for each in table.standings
    ]
    return ("arm", *(COLUMNS[name] for name in names), "sent again by, per call"), rows


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
