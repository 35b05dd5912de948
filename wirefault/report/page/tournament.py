"""The page of a tournament: the arms side by side, success against cost, and the page of each arm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wirefault.core.errors import UserError
from wirefault.core.files import UnsafeFileError, replace_shared
from wirefault.experiments.figures import unit_of
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.run_tournament import TournamentResult, agent_of
from wirefault.experiments.tournament import Table as ArmTable
from wirefault.history.logs import strip_control
from wirefault.report.page.parts import Cell, Chart, Matrix, PageContent, Table, Tone
from wirefault.report.page.phrase import Figure, Phrase, joined
from wirefault.report.page.svg import IntervalRow, Point, intervals, shares_against
from wirefault.report.page.write import page_html
from wirefault.report.page_links import PAGE, page_path
from wirefault.report.tournament import figure_names, group_lines, pair_text, rows_of, schedule_lines
from wirefault.stats.rates import percent


def tournament_page_line(result: TournamentResult) -> str:
    """Write the page below the logs; return a line with its path, or the reason why it was not written."""
    path = page_path(result.tournament.logs, result.tournament.id)
    try:
        html = page_html(tournament_content(result))
        replace_shared(result.tournament.logs, path, html.encode("utf-8", "replace"))
    except (UserError, OSError, UnsafeFileError, ValueError) as error:
        return f"no page: {strip_control(str(error))}"
    return f"page: {path}"


def tournament_content(result: TournamentResult) -> PageContent:
    """Describe the tournament; each arm's own page has its episodes."""
    tables, tournament = result.tables(), result.tournament
    decided = bool(tables) and all(table.is_decided for table in tables)
    return PageContent(
        id=tournament.id,
        title=tournament.title,
        kind="comparison",
        tone="good" if decided else "open",
        verdict="decided" if decided else "not decided",
        sentence=joined(
            " ",
            [
                Phrase(f"{table.under}: ", Figure(table.advice, "tables", place, "advice"))
                for place, table in enumerate(tables)
            ],
        ),
        facts=[
            ("seed", Figure(tournament.seed, "seed")),
            *(
                (f"under {table.under}", Figure(line, "tables", place, "schedules"))
                for place, table in enumerate(tables)
                for line in schedule_lines(table)
            ),
        ],
        commands=[("report", f"wirefault report {tournament.id}")],
        findings=[],
        matrix=_arm_matrix(result.results),
        charts=[chart for table in tables for chart in _charts(table)],
        tables=[table for place, arms in enumerate(tables) for table in _tables(place, arms)],
        episodes=[],
        provenance=[(each.saved.experiment_id, each.saved.evidence.text) for each in result.results],
        remarks=[
            Phrase(f"under {table.under}, ", Figure(line, "tables", place, "groups"))
            for place, table in enumerate(tables)
            for line in group_lines(table)
        ],
    )


_TONES: dict[str, Tone] = {"held": "good", "deviated": "bad"}


def _arm_matrix(results: Sequence[ExperimentResult]) -> Matrix | None:
    """A row for each arm, with a link to its own page."""
    rows = [
        (
            agent_of(each.plan),
            [
                Cell(
                    each.word,
                    _TONES.get(each.verdict or "", "open"),
                    f"../{each.saved.experiment_id}/{PAGE}",
                )
            ],
        )
        for each in results
    ]
    return Matrix("Arms", "arm", ("its own experiment",), rows) if rows else None


def _charts(table: ArmTable) -> Iterator[Chart]:
    points = []
    for each in table.standings:
        success, cost = each.figures["success_rate"], each.figures.get(table.cost)
        if (
            cost is not None
            and success.interval
            and math.isfinite(cost.value)
            and math.isfinite(success.value)
        ):
            points.append(Point(each.arm, cost.value, success.value, *success.interval))
    if points:
        title = f"Success against cost, under {table.under}"
        says = f"Each arm with the {percent(table.confidence)} interval of its success rate."
        yield Chart(title, says, shares_against(points, title, f"{unit_of(table.cost)} per episode"))
    rows = [
        IntervalRow(
            f"{pair.first} - {pair.second}",
            100 * pair.interval[0],
            100 * pair.interval[1],
            None if pair.success is None else 100 * pair.success,
        )
        for pair in table.pairings
    ]
    if rows:
        title = f"Differences of success, under {table.under}"
        says = "Paired by prompt and repetition; the intervals of all pairs share the error (Holm)."
        yield Chart(title, says, intervals(rows, title, "percentage points", zero=True))


def _tables(place: int, table: ArmTable) -> Iterator[Table]:
    """Yield the arms and their pairs; ``place``: of this table in the JSON."""
    columns, rows = rows_of(table)
    names = ["arm", *figure_names(table), "repeated_by"]
    arms = [
        tuple(
            Figure(text, "tables", place, "arms", row, name) for text, name in zip(texts, names, strict=True)
        )
        for row, texts in enumerate(rows)
    ]
    yield Table(f"Arms under {table.under}", columns, arms)
    pairs = []
    for number, pair in enumerate(table.pairings):
        path = ("tables", place, "pairs", number)
        pairs.append((Figure(f"{pair.first} - {pair.second}", *path), Figure(pair_text(pair), *path)))
    yield Table(f"Pairs under {table.under}", ("pair", "difference of success"), pairs)
