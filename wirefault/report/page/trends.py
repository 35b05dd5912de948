"""The page of experiments over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wirefault.experiments.trend import Trend
from wirefault.report.page.parts import Cell, Chart, Matrix, PageContent, Table, Tone, count_text
from wirefault.report.page.phrase import Figure, Phrase
from wirefault.report.page.svg import IntervalRow, intervals
from wirefault.stats.rates import percent

_TONES = {"held": "fine", "deviated": "harmful"}


def trend_content(trends: Sequence[Trend], selection: str) -> PageContent:
    """Show each statement's verdicts over time, and success with its interval; one page for all titles.

    ``selection``: how the recordings were chosen, in words.
    """
    latest = [trend.points[-1].verdict for trend in trends]
    tone: Tone = "bad" if "deviated" in latest else "good" if set(latest) == {"held"} else "open"
    runs = sum(len(trend.points) for trend in trends)
    matrices = [_matrix(place, trend) for place, trend in enumerate(trends)]
    return PageContent(
        id=selection,
        title="Experiments over time",
        kind="trend",
        tone=tone,
        verdict=f"latest: {latest.count('held')} of {len(trends)} held",
        sentence=f"{count_text(runs, 'run')} of {count_text(len(trends), 'experiment')}.",
        facts=[(trend.title, f"{trend.points[-1].verdict} on {trend.points[-1].day}") for trend in trends],
        commands=[("look at one", f"wirefault report {trends[0].points[-1].id}")],
        findings=[],
        matrix=matrices[0] if len(matrices) == 1 else None,
        charts=[chart for place, trend in enumerate(trends) for chart in _charts(place, trend)],
        tables=[] if len(matrices) == 1 else [_table(matrix) for matrix in matrices],
        episodes=[],
        remarks=[f"{trend.title}: {line}" for trend in trends for line in trend.changes],
        provenance=[(trend.title, ", ".join(point.id for point in trend.points)) for trend in trends],
    )


def _matrix(place: int, trend: Trend) -> Matrix:
    rows: list[tuple[str, Sequence[Cell | None]]] = [
        (
            f"{arm}: {statement}",
            [
                Cell(word[0], _TONES.get(word[0], "unknown"))
                if (word := point.statements.get((arm, statement)))
                else None
                for point in trend.points
            ],
        )
        for arm, statement in trend.statements
    ]
    verdicts = [
        Cell(Figure(point.verdict, place, "runs", number, "verdict"), _TONES.get(point.verdict, "unknown"))
        for number, point in enumerate(trend.points)
    ]
    return Matrix(
        trend.title, "statement", [point.day for point in trend.points], [("verdict", verdicts), *rows]
    )


def _table(matrix: Matrix) -> Table:
    rows = [[name, *(cell.word if cell else "" for cell in cells)] for name, cells in matrix.rows]
    return Table(matrix.title, [matrix.corner, *matrix.columns], rows)


def _charts(place: int, trend: Trend) -> Iterator[Chart]:
    for arm in dict.fromkeys(name for point in trend.points for name in point.success):
        rows = []
        for number, point in enumerate(trend.points):
            rate = point.success.get(arm)
            if rate is not None and rate.rate is not None and rate.low is not None and rate.high is not None:
                value = 100 * rate.rate
                at = (place, "runs", number, "success", arm)
                k, n = Figure(rate.k, *at, "k"), Figure(rate.n, *at, "n")
                note = Phrase(Figure(percent(rate.rate), *at, "rate"), " (", k, " of ", n, ")")
                rows.append(IntervalRow(point.day, 100 * rate.low, 100 * rate.high, value, note))
        if len(rows) > 1:
            yield Chart(
                f"Success of {arm}: {trend.title}",
                "Success rate of each run with its 95 % interval, the oldest first.",
                intervals(rows, f"success of {arm}", "%"),
            )
