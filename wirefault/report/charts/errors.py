"""Errors of tries as the caller saw them, and their causes."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from wirefault.judging.chart_data import REFUSED, ChartedTry, Selection
from wirefault.report.charts.style import (
    FAULT_COLORS,
    INK,
    LEFT,
    MUTED,
    Page,
    at_end,
    beside,
    count,
    fault_color,
    in_order,
    key,
    page,
    say_nothing,
    words,
)
from wirefault.report.charts.times import fault_name
from wirefault.report.colors import CLEAN
from wirefault.stats.rates import percent

_MAX_ROWS = 10
_ROOMY = 6  # up to this many rows have room for two lines of the usual size


def draw_errors(selection: Selection) -> Page:
    failed = [tried for tried in selection.tries if tried.error is not None]
    total = len(selection.tries)
    sheet = page(_finding(failed, total), selection)
    if not failed:
        none = f"{count(total, 'try', 'tries')}, none of them failed."
        return say_nothing(sheet, none if total else "No calls in this run.")
    hidden = _bars(sheet.axes(left=2.9, right=1.2, top=1.5, bottom=0.95), failed)
    sheet.text(LEFT, 1.13, "explained by:", size=9.5, color=MUTED, va="center")
    key(sheet, 1.13, [(_color(cause), _name(cause)) for cause in _causes(failed)], left=LEFT + 1.1)
    note = (
        f"As the {selection.witness} saw each HTTP try, on all links; one that failed may have been retried."
    )
    note += f" {count(hidden, 'rarer kind of error', 'rarer kinds of error')} not drawn." if hidden else ""
    sheet.foot(note)
    return sheet


def _causes(failed: list[ChartedTry]) -> list[str | None]:
    """Return the faults in the palette's order, then refusals, then unexplained errors."""
    faults = {tried.cause for tried in failed if tried.cause not in (None, REFUSED)}
    others = [other for other in (REFUSED, None) if any(tried.cause == other for tried in failed)]
    return [*in_order({fault for fault in faults if fault}, FAULT_COLORS), *others]


def _color(cause: str | None) -> str:
    return INK if cause is None else CLEAN if cause == REFUSED else fault_color(cause)


def _name(cause: str | None) -> str:
    if cause is None:
        return "no fault of the lab"
    return "refused by the service (4xx)" if cause == REFUSED else fault_name(cause)


def _finding(failed: list[ChartedTry], total: int) -> str:
    if not total:
        return "No errors: no calls"
    if not failed:
        return f"None of {total:,} tries failed"
    alone = sum(tried.cause is None for tried in failed)
    share = percent(len(failed) / total, decimals=0)
    head = f"{len(failed):,} of {count(total, 'try', 'tries')} failed ({share})"
    if alone:
        return f"{head}; no fault explains {alone:,} of them"
    return f"{head}, and each is explained" if len(failed) > 1 else f"{head}, and it is explained"


def _bars(axes: Axes, failed: list[ChartedTry]) -> int:
    """Draw the most frequent errors, stacked by fault; return how many kinds were left out."""
    totals = Counter(tried.error or "" for tried in failed)
    ranked = sorted(totals, key=lambda error: (-totals[error], error))
    rows = min(len(ranked), _MAX_ROWS)
    for row, error in enumerate(ranked[:_MAX_ROWS]):
        of_kind = [tried for tried in failed if tried.error == error]
        _bar(axes, row, of_kind, len(failed), 1 if rows <= _ROOMY else 0.8)
    axes.set_ylim(max(rows, 4) - 0.45, -0.55)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(True, axis="x")
    axes.set_xlabel("failed tries")
    return len(ranked) - rows


def _bar(axes: Axes, row: int, tries: list[ChartedTry], total: int, scale: float) -> None:
    """Draw one bar. ``scale``: factor for its two lines of text."""
    left = 0
    for cause in _causes(tries):
        number = sum(tried.cause == cause for tried in tries)
        axes.barh(row, number, left=left, height=0.6, color=_color(cause), edgecolor=MUTED, linewidth=0.4)
        left += number
    at_end(axes, f"{left}  ({percent(left / total, decimals=0)})", left, row)
    links = Counter(tried.link for tried in tries)
    most = ", ".join(f"{link} {n}" for link, n in links.most_common(3)) + (" …" if len(links) > 3 else "")
    name = words(tries[0].error or "").replace("http ", "HTTP ")
    beside(axes, name, 0, row, -9, 7 * scale, ha="right", size=10.5 * scale)
    beside(axes, most, 0, row, -9, -8 * scale, ha="right", size=8.5 * scale, color=MUTED)
