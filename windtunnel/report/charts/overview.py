"""One page that tells the run: outcomes, success rate, and every link over time."""

from __future__ import annotations

from matplotlib.axes import Axes

from windtunnel.report.charts import outcomes, success
from windtunnel.report.charts.data import Selection
from windtunnel.report.charts.heading import Rate, rate, subtitle
from windtunnel.report.charts.palette import MUTED
from windtunnel.report.charts.style import LEFT, Heading, Page, key, page, say_nothing
from windtunnel.report.charts.text import count
from windtunnel.report.charts.timeline import draw_spread, draw_timeline
from windtunnel.report.charts.tries import fault_key

HEIGHT = 8.1


def draw(selection: Selection) -> Page:
    overall = rate(selection.prompts)
    sheet = page(Heading(overall.title(), subtitle(selection)), HEIGHT)
    if not selection.prompts:
        return say_nothing(sheet, "No prompt was begun in this run.")
    _top(sheet, selection, overall)
    _bottom(sheet, selection)
    note = " · ".join(part for part in (_reading(selection), overall.left_out()) if part)
    sheet.text(LEFT, HEIGHT - 0.13, note, size=9, color=MUTED, va="bottom")
    return sheet


def _top(sheet: Page, selection: Selection, overall: Rate) -> None:
    counts = outcomes.tally(selection)
    left = sheet.grid(1, 1, left=1.5, right=5.75, top=1.4, bottom=5.0)
    bars = sheet.figure.add_subplot(left[0])
    bars.set_title("Outcomes", x=-0.42)
    outcomes.draw_bars(bars, counts, len(selection.prompts), explain=False)
    right = sheet.grid(1, 1, left=5.75, right=1.4, top=1.4, bottom=5.0)
    running = sheet.figure.add_subplot(right[0])
    if overall.n and not selection.several:
        running.set_title("Success rate so far, with its 95 % interval")
        success.draw_running_rate(running, selection.runs[0])
    else:
        _say(running, "success rate unknown" if not overall.n else "see success.png for each run")


def _say(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED, size=12)


def _bottom(sheet: Page, selection: Selection) -> None:
    left = sheet.grid(1, 1, left=1.15, right=3.75, top=4.15, bottom=0.85)
    timeline = sheet.figure.add_subplot(left[0])
    draw_timeline(timeline, selection)
    timeline.set_title("Every link over time")
    right = sheet.grid(1, 1, left=6.45, right=0.95, top=4.15, bottom=0.85)
    spread = sheet.figure.add_subplot(right[0])
    draw_spread(spread, selection)
    spread.set_title("Latency")
    key(sheet, 3.72, fault_key(selection))


def _reading(selection: Selection) -> str:
    failed = sum(one.error is not None for one in selection.tries)
    tries = count(len(selection.tries), "try", "tries")
    return f"{tries}, {failed} failed (crosses) · {count(len(selection.spans), 'toxic')} armed (bars)"
