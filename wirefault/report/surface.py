"""The surface of an experiment and its fault levels: tables for the console and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wirefault.experiments.plan import pass_name
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.surface import Cell, LevelAnswer, level_measures, surface_cells
from wirefault.report.tables import new_table
from wirefault.stats.rates import percent


@dataclass(frozen=True)
class Figures:
    """A table of texts, with lines below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str] = ()


def surface_figures(result: ExperimentResult) -> Iterator[Figures]:
    """Yield pass^k by perturbation and fault level for each arm; nothing without a surface."""
    cells = surface_cells(result.plan, result.arms)
    for variant in dict.fromkeys(cell.variant for cell in cells):
        own = [cell for cell in cells if cell.variant == variant]
        levels = dict.fromkeys(cell.level for cell in own)
        names = ["no faults" if not level else f"level {level:g}" for level in levels]
        rows = []
        for perturbation, k in dict.fromkeys((cell.perturbation, cell.k) for cell in own):
            row = {cell.level: cell for cell in own if (cell.perturbation, cell.k) == (perturbation, k)}
            texts = (_cell_text(row[level]) if level in row else "" for level in levels)
            rows.append((perturbation or "as written", pass_name(k), *texts))
        of_arm = f"{variant}: " if variant else ""
        title = f"{of_arm}chance that k tries at a prompt all succeed, by prompts and faults"
        yield Figures(title, ("prompts", "measure", *names), rows)


def _cell_text(cell: Cell) -> str:
    if cell.low is None or cell.high is None:
        return "no data"
    value = "open" if cell.value is None else percent(cell.value)
    return f"{value} [{percent(cell.low)}, {percent(cell.high)}] n={cell.n}"


def level_figures(result: ExperimentResult) -> Iterator[Figures]:
    """Yield a row per level, and how far the hypothesis held; nothing without levels."""
    rows = list(level_measures(result.plan, result.arms))
    if rows:
        texts = [
            (
                arm.unleveled_name,
                f"{arm.level:g}",
                *(each.text for each in row.values()),
                ", ".join(arm.capped),
            )
            for arm, row in rows
        ]
        lines = [level_line(answer) for answer in result.level_answers]
        yield Figures("fault levels", ("arm", "level", *rows[0][1], "always"), texts, lines)


def level_line(answer: LevelAnswer) -> str:
    """Return the last level that held, the first that deviated, and the ones between them."""
    last, first = answer.last_held, answer.first_deviated
    up_to = "at none of these levels" if last is None else f"up to level {last:g}"
    from_on = "deviated at none" if first is None else f"first deviated at level {first:g}"
    between = [
        f"{state} at {', '.join(f'{level:g}' for level, each in answer.between.items() if each == state)}"
        for state in dict.fromkeys(answer.between.values())
    ]
    named = f"; {', '.join(between)}" if between else ""
    return f"{answer.arm}: the hypothesis held {up_to} and {from_on}{named}"


def print_surface(console: Console, result: ExperimentResult) -> None:
    """Print the surface and the levels, if the experiment has them."""
    for figures in (*surface_figures(result), *level_figures(result)):
        table = new_table(*figures.columns, text_columns=range(len(figures.columns)))
        for column in table.columns:
            column.no_wrap = False
        for row in figures.rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(Text(figures.title))
        console.print(table)
        for line in figures.lines:
            console.print(Text(line))
