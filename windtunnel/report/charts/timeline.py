"""Each link as a row: its faults and tries over time, and beside it how its latencies spread."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from windtunnel.report.charts.data import LINK_NAMES, ChartedTry, Selection
from windtunnel.report.charts.palette import FAILED, GHOST, INK, MUTED, fault_color
from windtunnel.report.charts.style import beside, latency_axis, seconds_axis
from windtunnel.report.charts.text import duration
from windtunnel.report.charts.tries import dots, shade
from windtunnel.stats.intervals import percentile

HALF = 0.36  # half the height of a row's bar


def draw_timeline(axes: Axes, selection: Selection) -> None:
    """Fault bars in the colour of their kind, a dot for each try, a cross for each that failed."""
    tries = [tried for tried in selection.tries if not tried.direct]
    _rows(axes)
    for row, name in enumerate(LINK_NAMES):
        of_link = [tried for tried in tries if tried.link == name]
        shade(axes, selection, name, row - HALF, row + HALF)
        dots(axes, [(tried.start, float(row)) for tried in of_link], of_link, len(tries))
    seconds_axis(axes, selection.length, selection.several)
    axes.set_yticks(range(len(LINK_NAMES)), LINK_NAMES)
    axes.tick_params(axis="y", labelcolor=INK, labelsize=10.5, length=0)
    axes.tick_params(axis="x", length=0)


def draw_spread(axes: Axes, selection: Selection) -> None:
    """The same rows against latency: a dot a try in its fault's colour, a tick at the median."""
    tries = [tried for tried in selection.tries if not tried.direct]
    _rows(axes)
    latency_axis(axes, [tried.ms for tried in tries], vertical=False)
    low, _ = axes.get_xlim()
    for row, name in enumerate(LINK_NAMES):
        _spread_row(axes, row, [tried for tried in tries if tried.link == name], low)
    beside(axes, "median", 1, -0.8, 6, size=9, color=MUTED)
    axes.set_yticks([])
    axes.grid(True, axis="x")
    axes.tick_params(length=0)
    axes.set_xlabel("latency of each try (logarithmic)")


def _spread_row(axes: Axes, row: int, tries: Sequence[ChartedTry], low: float) -> None:
    x = [max(tried.ms, low) for tried in tries]
    y = [row + _jitter(index) for index in range(len(tries))]
    size = 20.0 if len(tries) < 60 else 8.0
    colors = [fault_color(tried.fault) for tried in tries]
    edges = [FAILED if tried.error else MUTED if tried.fault else "none" for tried in tries]
    axes.scatter(x, y, s=size, c=colors, edgecolors=edges, linewidths=0.9, zorder=3)
    middle = percentile((tried.ms for tried in tries if tried.error is None), 50)
    text = "all failed" if tries else "not called"
    if middle is not None:
        axes.plot([middle, middle], [row - HALF, row + HALF], color=INK, linewidth=1.8, zorder=4)
        text = duration(middle)
    beside(axes, text, 1, row, 6, size=9, color=INK if tries else MUTED)


def _jitter(index: int) -> float:
    """Deterministic and even: the golden ratio's multiples, within the row's bar."""
    return ((0.5 + index * 0.618034) % 1.0 - 0.5) * 1.5 * HALF


def _rows(axes: Axes) -> None:
    axes.set_ylim(len(LINK_NAMES) - 0.45, -0.55)
    for row in range(len(LINK_NAMES)):
        axes.axhspan(row - HALF, row + HALF, color=GHOST, linewidth=0, zorder=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
