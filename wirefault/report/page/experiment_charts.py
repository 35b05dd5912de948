"""Charts and tables of experiments alone: effects of faults, levels, the surface, and what failures cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wirefault.experiments.effects import FaultEffect
from wirefault.experiments.estimates import Rate
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.surface import surface_cells
from wirefault.experiments.verdict import ArmResult
from wirefault.judging.account import FaultAccount
from wirefault.report.page.charts import points_row
from wirefault.report.page.parts import Chart, Table
from wirefault.report.page.phrase import Figure, Phrase
from wirefault.report.page.svg import HeatCell, IntervalRow, LevelPoint, heat_map, intervals, shares_by_level
from wirefault.report.resilience import resilience_tables
from wirefault.report.surface import level_figures as level_rows
from wirefault.report.surface import surface_figures
from wirefault.report.tables import table_texts
from wirefault.stats.rates import percent

_EFFECT = "Effect of each fault"
_NEVER = "never delivered: no effect to show"


def effect_chart(
    effects: Sequence[FaultEffect], faults: Mapping[str, Sequence[FaultAccount]]
) -> Iterator[Chart]:
    """Draw the change of the success rate by fault, the worst first; then faults without an effect to show.

    ``faults``: by arm, to name the ones that were never delivered.
    """
    delivered = {(arm, row.entry or row.kind): row.delivered for arm, rows in faults.items() for row in rows}
    known: list[tuple[float, IntervalRow]] = []
    without: list[tuple[str, Phrase]] = []
    for place, effect in enumerate(effects):
        at, label = ("effects", place), f"{effect.fault} ({effect.arm})"
        drawn = Figure(f"drawn in {effect.drawn}", *at, "drawn")
        never = effect.drawn == 0 or delivered.get((effect.arm, effect.fault)) == 0
        if effect.success is None or never:
            why = _NEVER if never else "no pair with an outcome"
            without.append((label, Phrase(why, ", ", drawn)))
        else:
            row = points_row(label, effect.success, (*at, "success"))
            known.append((effect.success.value, replace(row, note=Phrase(row.note, ", ", drawn))))
    named = {(effect.arm, effect.fault) for effect in effects}
    without += [
        (f"{account.name} ({arm})", Phrase(_NEVER))
        for arm, accounts in faults.items()
        for account in accounts
        if account.delivered == 0 and not _is_named(arm, account, named)
    ]
    rows = [row for _, row in sorted(known, key=lambda pair: pair[0])]
    rows += [IntervalRow(label, None, None, None, note) for label, note in without]
    if rows:
        says = (
            "Change of the success rate over the episodes for which the fault was planned, against the same"
            " episodes of the control, with 90 % intervals; the worst first. A line that reaches 0 leaves"
            " open whether the true rate changes; a statement that is a check is refuted by the episodes that"
            " ran, whatever this interval is."
        )
        yield Chart(_EFFECT, says, intervals(rows, _EFFECT, "percentage points", zero=True))


def _is_named(arm: str, row: FaultAccount, named: set[tuple[str, str]]) -> bool:
    return any(
        each == arm and fault in (row.entry, row.name, row.kind, "ERROR_PROB", "TOXIC_PROB")
        for each, fault in named
    )


def level_figures(result: ExperimentResult) -> list[dict[str, Any]]:
    """Return the success rate of each level of each arm; the control is level 0. Empty without levels."""
    completed = {arm.name: arm for arm in result.arms}
    planned = [(arm.unleveled_name, arm.level, arm.name) for arm in result.plan.leveled]
    rows = []
    for variant in dict.fromkeys(name for name, _, _ in planned):
        for level, name in [(0.0, CONTROL), *((level, name) for of, level, name in planned if of == variant)]:
            measure = completed[name].measures.get("success_rate") if name in completed else None
            if measure is None or not isinstance(measure.estimate, Rate) or not measure.estimate.n:
                continue
            ends = measure.estimate.interval(result.plan.terms.error)
            rows.append(
                {
                    "arm": variant,
                    "level": level,
                    "value": measure.estimate.value,
                    "low": float(ends.low),
                    "high": float(ends.high),
                    "n": measure.estimate.n,
                }
            )
    return rows if planned else []


def level_chart(levels: Sequence[Mapping[str, Any]], confidence: float) -> Iterator[Chart]:
    """Draw success against the level of the faults, a picture for each arm."""
    for arm in dict.fromkeys(row["arm"] for row in levels):
        series = []
        for place, row in enumerate(levels):
            if row["arm"] != arm:
                continue
            at = ("figures", "levels", place)
            value = "open" if row["value"] is None else percent(row["value"])
            text = Phrase(Figure(value, *at, "value"), ", n = ", Figure(row["n"], *at, "n"))
            series.append(LevelPoint(row["level"], row["value"], row["low"], row["high"], text))
        says = (
            f"Share of successful episodes at each level of the faults of {arm}, with {percent(confidence)}"
            " intervals; level 0 is the control, without faults."
        )
        title = "Success against level"
        yield Chart(title, says, shares_by_level(series, f"{title}, {arm}", "level of the faults", "success"))


def surface_chart(result: ExperimentResult) -> Iterator[Chart]:
    """Draw the chance that k tries all succeed by prompts and level, a picture for each arm and k."""
    cells = surface_cells(result.plan, result.arms)
    for variant, k in dict.fromkeys((cell.variant, cell.k) for cell in cells):
        own = [(place, cell) for place, cell in enumerate(cells) if (cell.variant, cell.k) == (variant, k)]
        levels = list(dict.fromkeys(cell.level for _, cell in own))
        rows = []
        for perturbation in dict.fromkeys(cell.perturbation for _, cell in own):
            by_level = {cell.level: (at, cell) for at, cell in own if cell.perturbation == perturbation}
            line = []
            for level in levels:
                place, cell = by_level.get(level, (0, None))
                if cell is None or cell.low is None or cell.high is None:
                    line.append(HeatCell(None, "no data"))
                    continue
                value = "open" if cell.value is None else percent(cell.value)
                more = Figure(f"{percent(cell.low)} to {percent(cell.high)}, n = {cell.n}", "surface", place)
                share = cell.value if cell.value is not None else cell.low
                line.append(HeatCell(share, Figure(value, "surface", place, "value"), more))
            rows.append((perturbation or "as written", line))
        columns = ["no faults" if not level else f"level {level:g}" for level in levels]
        name = f"all {k} tries succeed" if k > 1 else "a try succeeds"
        of_arm = f" ({variant})" if variant else ""
        says = (
            f"Chance that {name}{of_arm}, by the wording of the prompts and the level of the faults; below it"
            f" the {percent(result.plan.terms.confidence)} interval. Darker is worse."
        )
        yield Chart("Surface", says, heat_map(columns, rows, f"Surface, {name}", "level of the faults"))


def level_tables(result: ExperimentResult) -> Iterator[Table]:
    """The surface and the levels as tables, and how far the hypothesis held."""
    for figures, root in [(each, "surface") for each in surface_figures(result)] + [
        (each, "levels") for each in level_rows(result)
    ]:
        rows = []
        for place, row in enumerate(figures.rows):
            path = (root, place) if root == "levels" else (root,)
            rows.append([row[0], *(Figure(cell, *path) if cell else "" for cell in row[1:])])
        title = f"{figures.title[:1].upper()}{figures.title[1:]}"
        note = Phrase(*(Figure(line, "level_answers", place) for place, line in enumerate(figures.lines)))
        yield Table(title, figures.columns, rows, note)


def failure_tables(arms: Sequence[ArmResult]) -> Iterator[Table]:
    """Tables of costs of failures, recovery, reliability and recovery quality, as on the console."""
    places = {arm.name: place for place, arm in enumerate(arms)}
    documents = {arm.name: arm.resilience.as_json() for arm in arms if arm.resilience is not None}
    for title, table, note in resilience_tables(arms):
        columns, texts = table_texts(table)
        rows = []
        for row in texts:
            names, path = _row_path(title, row, documents[row[0]])
            at = ("arms", places[row[0]], "resilience", *path)
            cells = [Figure(cell, *at) if cell else "" for cell in row[names:]]
            rows.append([*row[:names], *cells])
        yield Table(title, columns, rows, note, folded=True)


def _row_path(
    title: str, row: Sequence[str], document: Mapping[str, Any]
) -> tuple[int, tuple[str | int, ...]]:
    """Return how many cells of a row are names, and the place of its figures in the arm's JSON."""
    if title == "What failures cost":
        if row[1] == "amplification":
            return 2, ("amplification",)
        return 2, ("cost_of_faults", _index(document["cost_of_faults"], name=row[1]))
    if title == "Recovery":
        rows = document["recovery"]["rows"]
        return 3, ("recovery", "rows", _index(rows, by=row[1], name=row[2]))
    if title == "Reliability":
        return 2, ("reliability", _index(document["reliability"], operation=row[1]))
    return 2, ("recovery_quality", _index(document["recovery_quality"], part=row[1]))


def _index(rows: Sequence[Mapping[str, Any]], **wanted: str) -> int:
    return next(
        place
        for place, row in enumerate(rows)
        if all(" ".join(str(row[key]).split()) == value for key, value in wanted.items())
    )
