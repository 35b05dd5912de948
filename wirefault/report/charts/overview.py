"""The overview page: outcomes, success rate, and every link over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from wirefault.judging.chart_data import ChartedTry, Selection
from wirefault.judging.rates import Rate
from wirefault.report.charts import outcomes
from wirefault.report.charts.style import (
    GHOST,
    INK,
    LEFT,
    MUTED,
    Page,
    beside,
    claims_in,
    count,
    duration,
    fault_color,
    latency_axis,
    page,
    say_nothing,
    seconds_axis,
    success_rate,
    success_title,
    uncounted,
)
from wirefault.report.charts.times import crosses, dots, fault_key, shade
from wirefault.stats.rates import percentile

_HEIGHT = 8.25
_MAX_RUNS = 8
_HALF = 0.36  # half the height of a row's bar


def draw_overview(selection: Selection) -> Page:
    overall = success_rate(selection)
    sheet = page(success_title(overall, selection), selection, _HEIGHT)
    if not selection.prompts:
        return say_nothing(sheet, "No prompts started in this run.")
    _top(sheet, selection, overall)
    _bottom(sheet, selection)
    sheet.foot(_reading(selection), uncounted(overall, selection))
    return sheet


def _top(sheet: Page, selection: Selection, overall: Rate) -> None:
    counts = outcomes.tally(selection)
    bars = sheet.axes(left=1.5, right=6.05, top=1.3, bottom=5.25)
    sheet.text(LEFT, 1.22, "Outcomes", size=11, weight="bold")
    outcomes.draw_bars(bars, counts, len(selection.prompts), explain=False)
    left, right = (6.9, 1.6) if selection.several else (5.75, 1.4)
    rates = sheet.axes(left=left, right=right, top=1.3, bottom=5.25)
    claims = claims_in(selection)
    if not overall.n and claims.n:  # nothing checks them, so they are no success rate
        heading = claims.text.partition(" (")[0]
        sheet.text(5.27, 1.22, heading[:1].upper() + heading[1:], size=11, weight="bold")
        outcomes.draw_claim_bars(sheet.axes(left=6.9, right=1.6, top=1.3, bottom=5.25), claims)
        rates.remove()
    elif not overall.n:
        _say(rates, "success rate unknown")
    elif selection.several:
        sheet.text(5.27, 1.22, "Success rate of each run", size=11, weight="bold")
        outcomes.draw_runs(rates, selection.runs[-_MAX_RUNS:][::-1], longest=22)
    else:
        rates.set_title("Success rate so far")
        outcomes.draw_running_rate(rates, selection.runs[0])


def _say(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED, size=12)


def _bottom(sheet: Page, selection: Selection) -> None:
    timeline = sheet.axes(left=1.15, right=3.75, top=4.15, bottom=1.0)
    _draw_timeline(timeline, selection)
    timeline.set_title("Every link over time")
    latencies = sheet.axes(left=6.65, right=0.95, top=4.15, bottom=1.0)
    _draw_latencies(latencies, selection)
    latencies.set_title("Latency of each try")
    fault_key(sheet, 3.56, selection)


def _armed(selection: Selection) -> str:
    toxics = sum(span.toxic for span in selection.spans)
    errors = len(selection.spans) - toxics
    injected = f", {count(errors, 'fault')} injected at the gateway" if errors else ""
    return f"{count(toxics, 'toxic')} armed (bars){injected}"


def _reading(selection: Selection) -> str:
    failed = sum(tried.error is not None for tried in selection.tries)
    tries = count(len(selection.tries), "try", "tries")
    failures = f"{failed} failed"
    return f"{tries}, {failures} · {_armed(selection)} · medians are of the answered tries"


def _draw_timeline(axes: Axes, selection: Selection) -> None:
    """Draw bars in the colours of the faults, and at the end of each try a dot, or a cross if it failed."""
    tries = [tried for tried in selection.tries if not tried.direct]
    _rows(axes, len(selection.links))
    for row, name in enumerate(selection.links):
        of_link = [tried for tried in tries if tried.link == name]
        shade(axes, selection, name, row - _HALF, row + _HALF)
        dots(axes, [(tried.end, float(row)) for tried in of_link], of_link, len(tries))
    seconds_axis(axes, selection.length, selection.several)
    axes.set_yticks(range(len(selection.links)), selection.links)
    axes.tick_params(axis="y", labelcolor=INK, labelsize=10.5)


def _draw_latencies(axes: Axes, selection: Selection) -> None:
    """Draw the same rows against latency: a dot per answered try in its fault's colour, a cross per failed
    one, a tick at the median.
    """
    tries = [tried for tried in selection.tries if not tried.direct]
    _rows(axes, len(selection.links))
    latency_axis(axes, [tried.ms for tried in tries], vertical=False)
    low, _ = axes.get_xlim()
    for row, name in enumerate(selection.links):
        _latency_row(axes, row, [tried for tried in tries if tried.link == name], low)
    beside(axes, "median", 1, -0.55, 6, 7, size=9, color=MUTED)
    axes.set_yticks([])
    axes.grid(True, axis="x")
    axes.set_xlabel("latency of each try (logarithmic)")


def _latency_row(axes: Axes, row: int, tries: Sequence[ChartedTry], low: float) -> None:
    places = [(max(tried.ms, low), row + _jitter(index)) for index, tried in enumerate(tries)]
    answered = [index for index, tried in enumerate(tries) if tried.error is None]
    size = 20.0 if len(tries) < 60 else 8.0
    if answered:
        x, y = zip(*(places[index] for index in answered), strict=True)
        colors = [fault_color(tries[index].fault) if tries[index].fault else INK for index in answered]
        edges = [MUTED if tries[index].fault else "none" for index in answered]
        axes.scatter(x, y, s=size, c=colors, edgecolors=edges, linewidths=0.9, alpha=0.65, zorder=3)
    crosses(axes, [place for place, tried in zip(places, tries, strict=True) if tried.error], size)
    middle = percentile((tried.ms for tried in tries if tried.error is None), 50)
    text = "all failed" if tries else "not called"
    if middle is not None:
        axes.plot([middle, middle], [row - _HALF, row + _HALF], color=INK, linewidth=1.8, zorder=4)
        text = duration(middle)
    beside(axes, text, 1, row, 6, size=9, color=INK if tries else MUTED)


def _jitter(index: int) -> float:
    """Return deterministic, even offsets within the row's bar: multiples of the golden ratio."""
    return ((0.5 + index * 0.618034) % 1.0 - 0.5) * 1.5 * _HALF


def _rows(axes: Axes, links: int) -> None:
    axes.set_ylim(links - 0.45, -0.55)
    for row in range(links):
        axes.axhspan(row - _HALF, row + _HALF, color=GHOST, linewidth=0, zorder=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
