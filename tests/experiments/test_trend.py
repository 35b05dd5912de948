"""Experiments over time: streaks, changed experiments, and what cannot be trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from tests.report.page.test_figures import FigureReader, at, is_shown_as
from wirefault.cli.main import main
from wirefault.experiments.trend import Trend, TrendPoint
from wirefault.judging.rates import Rate
from wirefault.report.page.trends import trend_content
from wirefault.report.page.write import page_html
from wirefault.report.trends import print_trends, trends_json

KEY = ("method", "no duplicate")


def point(minute: int, verdict: str, content: str = "a") -> TrendPoint:
    keys = frozenset(content), frozenset({"method"})
    return TrendPoint(f"20260301-10{minute:02}00-ab12cd", verdict, {KEY: (verdict, "")}, {}, ("x",), keys)


def test_streak_begins_where_the_latest_verdict_began() -> None:
    trend = Trend("t", [point(n, v) for n, v in enumerate(("held", "deviated", "held", "held"))])
    latest, since, counts = trend.streak(KEY)
    assert (latest, since.day, counts) == ("held", "2026-03-01 10:02", {"held": 3, "deviated": 1})
    assert TrendPoint("planted", "held", {}, {}).day == "planted"


def test_changed_prompts_are_named() -> None:
    trend = Trend("t", [point(0, "held"), point(1, "held"), point(2, "held", "b")])
    assert [line.split(";")[0] for line in trend.changes] == [
        "the experiment's prompts changed on 2026-03-01 10:02"
    ]


def test_page_has_each_verdict_and_is_bad_if_the_last_deviated() -> None:
    content = trend_content([Trend("t", [point(0, "held"), point(1, "deviated")])], "tag x")
    assert (content.tone, content.verdict) == ("bad", "latest: 0 of 1 held")
    assert content.matrix is not None
    [_, (name, cells)] = content.matrix.rows
    assert (name, [cell.word for cell in cells if cell]) == ("method: no duplicate", ["held", "deviated"])
    assert "deviated" in page_html(content)


def test_unknown_tag_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    refused = CliRunner().invoke(main, ["runs", "trend", "--tag", "nightly", "--out", str(tmp_path)])
    assert (refused.exit_code, "no experiment with a verdict" in refused.output) == (64, True)


def test_figures_of_page_are_in_json() -> None:
    points = [
        replace(
            point(minute, "held"),
            success={"method": Rate(minute + 1, 4, 4, (minute + 1) / 4, 0.1, 0.9, None, None)},
        )
        for minute in (0, 1)
    ]
    trends = [Trend("a", points), Trend("b", [point(3, "deviated")])]
    reader = FigureReader()
    reader.feed(page_html(trend_content(trends, "tag x")))
    document = json.loads(json.dumps(trends_json(trends)))
    assert {pointer for pointer, _ in reader.figures} >= {"/0/runs/1/success/method/k", "/1/runs/0/verdict"}
    assert all(is_shown_as(text, at(document, pointer)) for pointer, text in reader.figures)


def test_single_run_has_one_day_and_one_rate() -> None:
    rate = Rate(1, 4, 4, 0.25, 0.1, 0.9, None, None)
    output = StringIO()
    print_trends(Console(file=output), [Trend("a", [replace(point(0, "held"), success={"method": rate})])])
    assert "1 run, 2026-03-01 10:00; success of method 25 %\n" in output.getvalue()
