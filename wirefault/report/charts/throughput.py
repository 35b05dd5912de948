"""Prompts finished and HTTP tries made over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from wirefault.report.charts.data import RunData, Selection
from wirefault.report.charts.palette import ACCENT, CLEAN, FAILED
from wirefault.report.charts.style import Page, beside, page, say_nothing, seconds_axis
from wirefault.report.charts.text import count

_NICE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_BINS = 48


def draw_throughput(selection: Selection) -> Page:
    sheet = page(_finding(selection), selection)
    if not _finishes(selection) and not selection.tries:
        return say_nothing(sheet, "Nothing was finished and no call was made in this run.")
    grid = sheet.grid(2, 1, left=0.8, right=1.5, top=1.4, bottom=0.85, height_ratios=[3, 2], hspace=0.38)
    above, below = (sheet.figure.add_subplot(grid[row]) for row in (0, 1))
    _finished(above, selection)
    width = bin_width(selection.length)
    span = width * len(histogram([], width, selection.length))
    _tries(below, selection, width)
    seconds_axis(above, span, selection.several, label=False)
    above.tick_params(labelbottom=False)
    seconds_axis(below, span, selection.several)
    sheet.foot("A prompt is finished when it is judged: arming, healing and settling are in this figure.")
    return sheet


def _finishes(selection: Selection) -> list[float]:
    return sorted(prompt.judged for prompt in selection.prompts if prompt.judged is not None)


def _finding(selection: Selection) -> str:
    done, total = len(_finishes(selection)), sum(run.length for run in selection.runs)
    rate = done / total
    figure = f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"
    if not done:
        return f"No prompt was finished in {total:.3g} s"
    return f"{count(done, 'prompt')} in {total:.3g} s: {figure}" + (
        f", over {len(selection.runs)} runs" if selection.several else ""
    )


def _finished(axes: Axes, selection: Selection) -> None:
    axes.set_title("Prompts finished")
    for run in selection.runs:
        newest = run is selection.runs[-1]
        _steps(axes, run, ACCENT if newest else CLEAN, 2.4 if newest else 1.1)
    last = selection.runs[-1]
    done = sum(prompt.judged is not None for prompt in last.prompts)
    label = f"{done} in the\nnewest run" if selection.several else f"{done} of\n{last.planned} planned"
    beside(axes, label, 1, done, 8, color=ACCENT, weight="bold")
    most = max(sum(prompt.judged is not None for prompt in run.prompts) for run in selection.runs)
    axes.set_ylim(0, max(most, 1) * 1.06)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(True, axis="y")


def _steps(axes: Axes, run: RunData, color: str, width: float) -> None:
    times = sorted(prompt.judged for prompt in run.prompts if prompt.judged is not None)
    counts = list(range(len(times) + 1))
    axes.step([0.0, *times, run.length], [*counts, counts[-1]], where="post", color=color, linewidth=width)
    if len(times) <= 30:
        axes.plot(times, counts[1:], "o", color=color, markersize=width * 1.8, clip_on=False)


def bin_width(length: float) -> float:
    """The smallest round number of seconds that makes at most 48 bins."""
    return next((width for width in _NICE if length / width <= _BINS), length / _BINS)


def _tries(axes: Axes, selection: Selection, width: float) -> None:
    """Tries by their end, failed ones on top of the others."""
    tries, length = selection.tries, selection.length
    fine = histogram([tried.end for tried in tries if tried.error is None], width, length)
    failed = histogram([tried.end for tried in tries if tried.error is not None], width, length)
    places = [(index + 0.5) * width for index in range(len(fine))]
    axes.bar(places, fine, width * 0.86, color=CLEAN, clip_on=False)
    axes.bar(places, failed, width * 0.86, bottom=fine, color=FAILED, clip_on=False)
    axes.set_title(f"HTTP tries in each {width:g} s")
    top = axes.get_ylim()[1]
    beside(axes, f"{sum(failed):,} failed", 1, top, 8, -12, color=FAILED, weight="bold")
    beside(axes, f"{sum(fine):,} answered", 1, top, 8, -30)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.grid(True, axis="y")


def histogram(times: Sequence[float], width: float, length: float) -> list[int]:
    """How many of the times fall into each bin of that width."""
    bins = [0] * max(1, -int(-length // width))
    for time in times:
        bins[min(max(int(time / width), 0), len(bins) - 1)] += 1
    return bins
