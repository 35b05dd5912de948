"""How long the agent worked on each prompt, by when it was done with it: whether it grew slower, and when."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from wirefault.report.charts.data import ChartedPrompt, Selection
from wirefault.report.charts.response import FAULT_GROUPS
from wirefault.report.charts.style import Page, key, latency_axis, page, say_nothing, seconds_axis
from wirefault.report.charts.text import LEAST_FOR_P95, count, duration
from wirefault.stats.intervals import percentile

LEAST_WINDOW = 5  # prompts in a moving median: odd, so that one of them is in the middle

_Point = tuple[float, float]  # seconds since the start of the run, ms


def draw_response_over_time(selection: Selection) -> Page:
    timed = _points(selection.prompts)
    sheet = page(_finding(timed, selection), selection)
    if not timed:
        return say_nothing(sheet, "No attempt at a prompt ended in this run.")
    axes = sheet.axes(left=0.8, right=0.5, top=1.5, bottom=1.05)
    latency_axis(axes, [ms for _, ms in timed], vertical=True)
    chips = []
    for crossed, color, name in FAULT_GROUPS:
        group = [prompt for prompt in selection.prompts if prompt.crossed_fault is crossed]
        chips.append((color, f"{count(len(_points(group)), 'prompt')} {name}"))
        _dots(axes, _points(group), color, len(timed))
        for run in selection.runs:
            _line(axes, _points([prompt for prompt in run.prompts if prompt.crossed_fault is crossed]), color)
    axes.grid(True, axis="y")
    axes.set_title("Time that the agent worked on each prompt, all attempts together (logarithmic)")
    seconds_axis(axes, selection.length, selection.several)
    key(sheet, 1.1, chips)
    sheet.foot(
        "A dot stands where the last attempt at its prompt ended. Without arming and healing.",
        f"Line: median of {LEAST_WINDOW} dots of its colour in a row, or of a tenth of them if that is more.",
    )
    return sheet


def _points(prompts: Sequence[ChartedPrompt]) -> list[_Point]:
    """When and how long, in the order in which they ended."""
    known = [
        (prompt.ended, prompt.response_ms)
        for prompt in prompts
        if prompt.ended is not None and prompt.response_ms is not None
    ]
    return sorted(known)


def _dots(axes: Axes, points: Sequence[_Point], color: str, crowd: int) -> None:
    low, _ = axes.get_ylim()
    size = 30.0 if crowd < 60 else 12.0 if crowd < 400 else 5.0
    heights = [max(ms, low) for _, ms in points]
    axes.scatter([t for t, _ in points], heights, s=size, color=color, alpha=0.5, linewidths=0, zorder=3)


def _line(axes: Axes, points: Sequence[_Point], color: str) -> None:
    line = moving_median(points, max(LEAST_WINDOW, len(points) // 20 * 2 + 1))
    axes.plot([t for t, _ in line], [ms for _, ms in line], color=color, linewidth=2.2, zorder=4)


def moving_median(points: Sequence[_Point], window: int) -> list[_Point]:
    """The median of each ``window`` neighbours, at the one in the middle; none of fewer."""
    half = window // 2
    times = [ms for _, ms in points]
    return [
        (points[middle][0], percentile(times[middle - half : middle + half + 1], 50) or 0.0)
        for middle in range(half, len(points) - half)
    ]


def _finding(timed: Sequence[_Point], selection: Selection) -> str:
    middle = percentile((ms for _, ms in timed), 50)
    if middle is None:
        return "No response time: no attempt ended"
    calm = [ms for _, ms in _points([p for p in selection.prompts if not p.crossed_fault])]
    if selection.several or len(calm) < LEAST_FOR_P95:
        return f"Median response time: {duration(middle)} over {count(len(timed), 'prompt')}"
    half = len(calm) // 2
    first, second = percentile(calm[:half], 50) or 0.0, percentile(calm[half:], 50) or 0.0
    return f"Median response time without a fault: first half {duration(first)}, second {duration(second)}"
