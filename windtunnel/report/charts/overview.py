"""One page that tells the run: outcomes, success rate, and every link over time."""

from __future__ import annotations

from matplotlib.axes import Axes

from windtunnel.judging.summary import Rate
from windtunnel.report.charts import outcomes, success
from windtunnel.report.charts.data import Selection
from windtunnel.report.charts.heading import left_out, subtitle, success_rate, success_title
from windtunnel.report.charts.palette import MUTED
from windtunnel.report.charts.style import LEFT, Heading, Page, key, page, say_nothing
from windtunnel.report.charts.text import count
from windtunnel.report.charts.timeline import draw_spread, draw_timeline
from windtunnel.report.charts.tries import NO_FAULT, fault_key

_HEIGHT = 8.25
_MOST_RUNS = 8


def draw_overview(selection: Selection) -> Page:
    overall = success_rate(selection)
    sheet = page(Heading(success_title(overall), subtitle(selection)), _HEIGHT)
    if not selection.prompts:
        return say_nothing(sheet, "No prompt was begun in this run.")
    _top(sheet, selection, overall)
    _bottom(sheet, selection)
    sheet.foot(_reading(selection), left_out(overall, selection))
    return sheet


def _top(sheet: Page, selection: Selection, overall: Rate) -> None:
    counts = outcomes.tally(selection)
    left = sheet.grid(1, 1, left=1.5, right=6.05, top=1.3, bottom=5.25)
    bars = sheet.figure.add_subplot(left[0])
    sheet.text(LEFT, 1.22, "Outcomes", size=11, weight="bold")
    outcomes.draw_bars(bars, counts, len(selection.prompts), explain=False)
    wide = 6.9 if selection.several else 5.75
    right = sheet.grid(1, 1, left=wide, right=1.6 if selection.several else 1.4, top=1.3, bottom=5.25)
    rates = sheet.figure.add_subplot(right[0])
    if not overall.n:
        _say(rates, "success rate unknown")
    elif selection.several:
        sheet.text(5.27, 1.22, "Success rate of each run", size=11, weight="bold")
        success.draw_runs(rates, selection.runs[-_MOST_RUNS:][::-1], longest=22)
    else:
        rates.set_title("Success rate so far")
        success.draw_running_rate(rates, selection.runs[0])


def _say(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED, size=12)


def _bottom(sheet: Page, selection: Selection) -> None:
    left = sheet.grid(1, 1, left=1.15, right=3.75, top=4.15, bottom=1.0)
    timeline = sheet.figure.add_subplot(left[0])
    draw_timeline(timeline, selection)
    timeline.set_title("Every link over time")
    right = sheet.grid(1, 1, left=6.65, right=0.95, top=4.15, bottom=1.0)
    spread = sheet.figure.add_subplot(right[0])
    draw_spread(spread, selection)
    spread.set_title("Latency of each try")
    entries = fault_key(selection)
    key(sheet, 3.56, entries)
    if not entries:
        sheet.text(LEFT, 3.56, NO_FAULT, size=9.5, color=MUTED, va="center")


def _armed(selection: Selection) -> str:
    toxics = sum(span.toxic for span in selection.spans)
    errors = len(selection.spans) - toxics
    injected = f", {count(errors, 'fault')} injected at the gateway" if errors else ""
    return f"{count(toxics, 'toxic')} armed (bars){injected}"


def _reading(selection: Selection) -> str:
    failed = sum(tried.error is not None for tried in selection.tries)
    tries = count(len(selection.tries), "try", "tries")
    failures = f"{failed} failed (crosses, red rings)"
    return f"{tries}, {failures} · {_armed(selection)} · medians are of the answered tries"
