"""Network latency of each link over time, with the intervals of its faults shaded."""

from __future__ import annotations

from matplotlib.axes import Axes

from windtunnel.report.charts.data import LINK_NAMES, Selection, Try
from windtunnel.report.charts.heading import subtitle
from windtunnel.report.charts.palette import MUTED
from windtunnel.report.charts.style import (
    LEFT,
    Heading,
    Page,
    key,
    latency_axis,
    page,
    say_nothing,
    seconds_axis,
)
from windtunnel.report.charts.text import count, duration, quantile, spread
from windtunnel.report.charts.tries import dots, fault_key, shade

COLUMNS = 2
ROW_HEIGHT = 1.55


def draw(selection: Selection) -> Page:
    tries = [one for one in selection.tries if not one.direct]
    links = [name for name in LINK_NAMES if any(one.link == name for one in tries)]
    rows = max(1, -(-len(links) // COLUMNS))
    height = max(5.625, 1.9 + rows * ROW_HEIGHT) if links else 5.625
    sheet = page(Heading(_finding(tries), subtitle(selection)), height)
    if not links:
        return say_nothing(sheet, "No call was made over any link in this run.")
    grid = sheet.grid(
        rows, COLUMNS if len(links) > 1 else 1, left=0.8, top=1.7, bottom=0.85, hspace=0.5, wspace=0.16
    )
    for place, name in enumerate(links):
        axes = sheet.figure.add_subplot(grid[place // COLUMNS, place % COLUMNS])
        below = place + COLUMNS >= len(links)
        _panel(axes, selection, name, tries, below)
    entries = fault_key(selection)
    key(sheet, 1.13, [(color, f"{name} armed") for color, name in entries])
    sheet.text(LEFT, height - 0.15, _note(selection, links), size=9, color=MUTED, va="bottom")
    return sheet


def _panel(axes: Axes, selection: Selection, name: str, tries: list[Try], below: bool) -> None:
    mine = [one for one in tries if one.link == name]
    latency_axis(axes, [one.ms for one in tries], vertical=True)
    low, high = axes.get_ylim()
    shade(axes, [span for span in selection.spans if span.link == name], low, high)
    dots(axes, [(one.end, max(one.ms, low)) for one in mine], mine, len(mine) * 4)
    axes.grid(True, axis="y")
    axes.set_title(name)
    failed = sum(one.error is not None for one in mine)
    told = f"{count(len(mine), 'try', 'tries')}, {failed} failed · {spread([one.ms for one in mine])}"
    axes.text(1, 1.06, told, transform=axes.transAxes, ha="right", va="bottom", size=9, color=MUTED)
    seconds_axis(axes, selection.length, selection.several, label=below)
    axes.tick_params(labelbottom=below, length=0)


def _finding(tries: list[Try]) -> str:
    tools = [one for one in tries if one.link != "model"]
    clean = quantile([one.ms for one in tools if one.fault is None], 0.5)
    faulted = quantile([one.ms for one in tools if one.fault], 0.5)
    if clean is not None and faulted is not None:
        return f"Median latency of a tool call's try: {duration(clean)} clean, {duration(faulted)} across a fault"
    if clean is not None:
        slowest = max(one.ms for one in tools)
        return f"No try crossed a fault: median latency {duration(clean)}, slowest {duration(slowest)}"
    if faulted is not None:
        return f"Every tool try crossed a fault: median latency {duration(faulted)}"
    return "No latency: no tool was called"


def _note(selection: Selection, links: list[str]) -> str:
    silent = [name for name in LINK_NAMES if name not in links]
    parts = ["Dot: a try that got a reply; cross: one that failed. Logarithmic scale."]
    if silent:
        armed = sum(span.link in silent for span in selection.spans)
        parts.append(
            f"Never called: {', '.join(silent)}" + (f" ({armed} faults armed there)." if armed else ".")
        )
    direct = sum(one.direct for one in selection.tries)
    if direct:
        parts.append(f"{count(direct, 'fallback try', 'fallback tries')} past the proxies not drawn.")
    return " ".join(parts)
