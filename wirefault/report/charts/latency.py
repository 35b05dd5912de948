"""Network latency of each link over time, with the intervals of its faults shaded."""

from __future__ import annotations

from collections.abc import Collection

from matplotlib.axes import Axes

from wirefault.report.charts.data import ChartedTry, Selection
from wirefault.report.charts.palette import MUTED
from wirefault.report.charts.style import (
    Page,
    latency_axis,
    page,
    say_nothing,
    seconds_axis,
)
from wirefault.report.charts.text import count, duration, spread
from wirefault.report.charts.tries import dots, fault_key, shade
from wirefault.stats.intervals import percentile

_COLUMNS = 2
_ROW_HEIGHT = 1.55


def draw_latency(selection: Selection) -> Page:
    tries = [tried for tried in selection.tries if not tried.direct]
    links = [name for name in selection.links if any(tried.link == name for tried in tries)]
    rows = max(1, -(-len(links) // _COLUMNS))
    height = max(5.625, 1.9 + rows * _ROW_HEIGHT) if links else 5.625
    sheet = page(_finding(tries, selection.models), selection, height)
    if not links:
        return say_nothing(sheet, "No call was made over any link in this run.")
    grid = sheet.grid(
        rows,
        _COLUMNS if len(links) > 1 else 1,
        left=0.8,
        right=0.35,
        top=1.7,
        bottom=0.85,
        hspace=0.5,
        wspace=0.16,
    )
    for place, name in enumerate(links):
        axes = sheet.figure.add_subplot(grid[place // _COLUMNS, place % _COLUMNS])
        below = place + _COLUMNS >= len(links)
        _panel(axes, selection, name, tries, below)
    fault_key(sheet, 1.13, selection)
    sheet.foot(_note(selection, links))
    return sheet


def _panel(axes: Axes, selection: Selection, name: str, tries: list[ChartedTry], below: bool) -> None:
    of_link = [tried for tried in tries if tried.link == name]
    latency_axis(axes, [tried.ms for tried in tries], vertical=True)
    low, high = axes.get_ylim()
    shade(axes, selection, name, low, high)
    dots(axes, [(tried.end, max(tried.ms, low)) for tried in of_link], of_link, len(of_link) * 4)
    axes.grid(True, axis="y")
    axes.set_title(name)
    failed = sum(tried.error is not None for tried in of_link)
    answered = [tried.ms for tried in of_link if tried.error is None]
    caption = f"{count(len(of_link), 'try', 'tries')}, {failed} failed"
    caption += f" · {spread(answered)}" if answered else ""
    axes.set_title(caption, loc="right", size=9, weight="normal", color=MUTED)
    seconds_axis(axes, selection.length, selection.several, label=below)
    axes.tick_params(labelbottom=below)


def _finding(tries: list[ChartedTry], models: Collection[str]) -> str:
    tools = [tried for tried in tries if tried.link not in models]
    if not tools:
        return "No tool was called"
    failed = sum(tried.error is not None for tried in tools)
    ending = f"; {failed:,} of {len(tools):,} failed" if failed else ""
    clean = percentile((tried.ms for tried in tools if tried.error is None and tried.fault is None), 50)
    faulted = percentile((tried.ms for tried in tools if tried.error is None and tried.fault), 50)
    medians = ((clean, "clean"), (faulted, "across a fault"))
    parts = [f"{duration(median)} {name}" for median, name in medians if median is not None]
    if not parts:
        return f"All {count(len(tools), 'tool try', 'tool tries')} failed"
    return f"Median of answered tool tries: {', '.join(parts)}{ending}"


def _note(selection: Selection, links: list[str]) -> str:
    shaded = "fault armed in any run" if selection.several else "fault armed"
    parts = [f"Dot: an answered try (p50 and the rest are theirs); cross: a failed one. Shaded: {shaded}."]
    silent = [name for name in selection.links if name not in links]
    if silent:
        armed = sum(span.link in silent and span.toxic for span in selection.spans)
        met_by_none = f" ({count(armed, 'toxic')} armed there)" if armed else ""
        parts.append(f"Never called: {', '.join(silent)}{met_by_none}.")
    direct = sum(tried.direct for tried in selection.tries)
    if direct:
        parts.append(f"{count(direct, 'fallback try', 'fallback tries')} past the proxies not drawn.")
    return " ".join(parts)
