"""The failures of an experiment's arms for people: costs, recovery, reliability, error budgets, quality."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wirefault.experiments.measure import Measure, in_unit
from wirefault.experiments.resilience import Recovery, Resilience
from wirefault.experiments.verdict import ArmResult
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

_MAX_ROWS, _MAX_ARMS = 8, 4
_Arms = Sequence[tuple[str, Resilience]]


def print_resilience(console: Console, arms: Sequence[ArmResult], *, verbose: bool = False) -> None:
    """Print the tables that have something to say about an arm in which something failed.

    Of arms with one episode, whose intervals rule out nothing, only if ``verbose``.
    """
    if not verbose:
        arms = [each for each in arms if each.resilience and len(each.resilience.arm.valid.episodes) > 1]
    failed = _failed_arms(arms)
    for _, table, note in resilience_tables(arms):
        console.print()
        console.print(table)
        console.print(Text(note, style="dim"))
    if len(failed) > _MAX_ARMS:
        console.print(Text(f"failures of {len(failed) - _MAX_ARMS} more arms: see --json"))
    for line in budget_lines(arms):
        console.print(Text(line))


def resilience_tables(arms: Sequence[ArmResult]) -> Iterator[tuple[str, Table, str]]:
    """Yield the title, the table and a note of each table that has rows; of the first arms with failures."""
    failed = _failed_arms(arms)[:_MAX_ARMS]
    for title, (table, note) in (
        ("What failures cost", _costs(failed)),
        ("Recovery", _recovery(failed)),
        ("Reliability", _reliability(failed)),
        ("Recovery quality", _quality(failed)),
    ):
        if table.row_count:
            yield title, table, note


def budget_lines(arms: Sequence[ArmResult]) -> Iterator[str]:
    """Yield a line for each error budget of an arm."""
    for name, resilience in ((arm.name, arm.resilience) for arm in arms):
        for line in _budget_lines(resilience) if resilience is not None else ():
            yield f"{name}, {line}"


def _failed_arms(arms: Sequence[ArmResult]) -> _Arms:
    return [
        (arm.name, arm.resilience) for arm in arms if arm.resilience is not None and _failed(arm.resilience)
    ]


def _failed(resilience: Resilience) -> bool:
    overshoot = resilience.measures.get("budget_overshoot")
    over = overshoot is not None and overshoot.bounds is not None and overshoot.bounds.high > 0
    return over or any(episode.tries.failed for episode in resilience.arm.valid.episodes)


def _costs(arms: _Arms) -> tuple[Table, str]:
    table = new_table("arm", "cost of faults", "per episode", "against control", text_columns=(0, 1, 2, 3))
    table.columns[2].no_wrap = table.columns[3].no_wrap = False
    for name, resilience in arms:
        for cost in resilience.costs:
            if cost.figure.interval is None:
                continue  # --json has the reason
            added = figure_text(cost.added) if cost.added is not None else ""
            table.add_row(Text(name), Text(cost.name), Text(figure_text(cost.figure)), Text(added))
        if resilience.amplification.n:
            amplification = figure_text(resilience.amplification)
            table.add_row(Text(name), Text("amplification"), Text(amplification), Text(""))
    return table, (
        "cost_of_faults_*: of tries that failed; against control: the same episodes, paired; amplification:"
        " requests for each logical call whose first one failed"
    )


def figure_text(figure: Measure) -> str:
    """Return a figure with its interval and n, on one line."""
    if figure.interval is None or not any(map(math.isfinite, figure.interval)):
        return one_line(figure.text)
    ends = [in_unit(end, figure.unit) for end in figure.interval]
    n = "" if "(" in figure.figure else f", n = {figure.n}"  # else it counts
    return one_line(f"{figure.figure} [{', '.join(ends)}]{n}")


def _recovery(arms: _Arms) -> tuple[Table, str]:
    head = ("arm", "failures by", "", "failures", "recovered", "mean", "p50", "p90", "p95", "p99")
    table = new_table(*head, text_columns=(0, 1, 2))
    table.columns[2].no_wrap = False
    for name, resilience in arms:
        for row in _most(resilience.recovery):
            table.add_row(Text(name), Text(row.by), Text(one_line(row.name)), *_recovery_cells(row))
    return table, (
        "seconds until the same request worked; failures that lasted are censored (Kaplan-Meier): ≥ is a"
        " lower bound, - not reached by so many; --json has all rows with intervals"
    )


def _most(rows: Sequence[Recovery]) -> Iterator[Recovery]:
    """The rows of each kind, those with most failures first; a kind with one row repeats the row of all."""
    for by in ("all", "link", "fault", "operation"):
        of_kind = sorted((row for row in rows if row.by == by), key=lambda row: -row.figures["failures"])
        if by in ("all", "fault") or len(of_kind) > 1:
            yield from of_kind[:_MAX_ROWS]


def _recovery_cells(row: Recovery) -> Iterator[str]:
    figures = row.figures
    yield str(figures["failures"])
    recovered = figures["recovered"]
    yield f"{recovered} to {recovered + row.unknown}" if row.unknown else str(recovered)
    more = "≥ " if figures["mttr_is_lower_bound"] else ""
    yield f"{more}{figures['mttr_seconds']:.3g} s"
    for each in (50, 90, 95, 99):
        seconds = figures[f"p{each}_seconds"]
        yield f"{seconds:.3g} s" if seconds is not None else "-"


def _reliability(arms: _Arms) -> tuple[Table, str]:
    head = ("arm", "calls to", "calls", "availability", "nines", "p50", "p95", "p99")
    table = new_table(*head, text_columns=(0, 1, 3))
    table.columns[1].no_wrap = False
    for name, resilience in arms:
        rows = resilience.reliability
        chosen = [
            row for row in rows if row["operation"] == "all" or row["availability"] < 1 or len(rows) == 1
        ]
        for row in sorted(chosen, key=lambda row: -row["n"])[:_MAX_ROWS]:
            table.add_row(Text(name), Text(one_line(row["operation"])), *_reliability_cells(row))
    return table, (
        "logical calls, retries included; nines are as many as the lower limit of the 90 % interval has, an"
        " episode's calls being one cluster; operations without a lost call are in --json"
    )


def _reliability_cells(row: Mapping[str, Any]) -> Iterator[str]:
    low, high = row["availability_interval"]
    yield str(row["n"])
    yield f"{percent(row['availability'])} [{percent(low)}, {percent(high)}]"
    yield str(row["nines"])
    for each in (50, 95, 99):
        yield f"{row[f'p{each}_seconds']:.3g} s"


def _quality(arms: _Arms) -> tuple[Table, str]:
    table = new_table("arm", "recovery quality", "", text_columns=(0, 1, 2))
    table.columns[2].no_wrap = False
    for name, resilience in arms:
        if any(episode.judged.delivered() for episode in resilience.arm.valid.episodes):
            for part, figure in resilience.quality:
                table.add_row(Text(name), Text(part), Text(figure_text(figure)))
    return table, (
        "of the episodes that a fault reached, each part by itself; timeliness: their seconds by those of the"
        " same episodes in the control"
    )


def _budget_lines(resilience: Resilience) -> Iterator[str]:
    for each in resilience.error_budgets:
        budget = each.budget
        low, high = budget.burn
        yield (
            f"error budget of {one_line(each.statement)}: {budget.consumed} of {budget.total:.3g} failures"
            f" used, {percent(budget.remaining)} left, burn rate {budget.burn_rate:.3g}"
            f" [{low:.3g}, {high:.3g}], n = {each.n}"
        )
