"""Experiments over time, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from wirefault.experiments.trend import Trend
from wirefault.judging.summary import counted
from wirefault.report.tables import new_table, one_line
from wirefault.stats.rates import percent

_STYLES = {"held": "green", "deviated": "bold red"}


def print_trends(console: Console, trends: Sequence[Trend]) -> None:
    """Print a table of each title: every statement's latest verdict, since when, and how often each."""
    for trend in trends:
        table = new_table("arm", "statement", "latest", "since", "of all runs", text_columns=(0, 1, 2, 3, 4))
        table.columns[1].no_wrap = False
        for key in trend.statements:
            latest, since, counts = trend.streak(key)
            times = ", ".join(f"{word} {count}" for word, count in counts.most_common())
            words = (one_line(key[0]), one_line(key[1]))
            table.add_row(*map(Text, words), Text(latest, style=_STYLES.get(latest, "")), since.day, times)
        console.print()
        console.print(Text(one_line(trend.title), style="bold"))
        runs = f"{counted(len(trend.points), 'run', 'runs')}, {_days(trend)}"
        console.print(Text(f"{runs}; {_success_text(trend)}" if _success_text(trend) else runs))
        console.print(table)
        for line in trend.changes:
            console.print(Text(line, style="yellow"))


def _days(trend: Trend) -> str:
    first, last = trend.points[0].day, trend.points[-1].day
    return first if first == last else f"{first} to {last}"


def _success_text(trend: Trend) -> str:
    """The success rates of the first and the last run with the same arm."""
    first, last = trend.points[0], trend.points[-1]
    texts = []
    for arm, rate in last.success.items():
        before = first.success.get(arm)
        if rate.rate is not None and before is not None and before.rate is not None:
            earlier = "" if first is last else f"{percent(before.rate)} to "
            texts.append(f"{arm} {earlier}{percent(rate.rate)}")
    return f"success of {', '.join(texts)}" if texts else ""


def trends_json(trends: Sequence[Trend]) -> list[dict[str, Any]]:
    """Return one object for each title; unknown values are null."""
    return [
        {
            "title": trend.title,
            "runs": [
                {
                    "experiment": point.id,
                    "verdict": point.verdict,
                    "tags": list(point.tags),
                    "success": {arm: asdict(rate) for arm, rate in point.success.items()},
                    "statements": [
                        {"arm": arm, "statement": statement, "verdict": verdict, "measured": measured}
                        for (arm, statement), (verdict, measured) in point.statements.items()
                    ],
                }
                for point in trend.points
            ],
        }
        for trend in trends
    ]
