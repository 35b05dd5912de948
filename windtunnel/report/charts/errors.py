"""What failed tries looked like to the caller, and which fault stood in their way."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from windtunnel.report.charts.data import Selection, Try
from windtunnel.report.charts.heading import subtitle
from windtunnel.report.charts.palette import FAULTS, INK, MUTED, fault_color, in_order
from windtunnel.report.charts.style import LEFT, Heading, Page, key, page, say_nothing
from windtunnel.report.charts.text import count, percent, printable, words

NONE = "none of the lab's"
MOST_ROWS = 10


def draw(selection: Selection) -> Page:
    failed = [one for one in selection.tries if one.error is not None]
    total = len(selection.tries)
    sheet = page(Heading(_finding(failed, total), subtitle(selection)))
    if not failed:
        return say_nothing(
            sheet,
            f"{count(total, 'try', 'tries')}, none of them failed."
            if total
            else "No call was made in this run.",
        )
    grid = sheet.grid(1, 1, left=2.9, right=1.2, top=1.5, bottom=0.95)
    axes = sheet.figure.add_subplot(grid[0])
    hidden = _bars(axes, failed)
    kinds = {one.fault for one in failed if one.fault}
    chips = [(fault_color(kind), words(kind)) for kind in in_order(kinds, FAULTS)]
    if any(one.fault is None for one in failed):
        chips.append((INK, NONE))
    sheet.text(LEFT, 1.13, "fault on the way:", size=9.5, color=MUTED, va="center")
    key(sheet, 1.13, chips, left=LEFT + 1.35)
    note = "As the caller saw each HTTP try, on all links; a try that failed may have been retried."
    note += f" {hidden} rarer kinds of error not drawn." if hidden else ""
    sheet.text(LEFT, sheet.height - 0.15, note, size=9, color=MUTED, va="bottom")
    return sheet


def _finding(failed: list[Try], total: int) -> str:
    if not total:
        return "No errors: no call was made"
    if not failed:
        return f"None of {total:,} tries failed"
    alone = sum(one.fault is None for one in failed)
    head = f"{len(failed):,} of {count(total, 'try', 'tries')} failed ({percent(len(failed) / total)})"
    if not alone:
        return f"{head}, {'each' if len(failed) > 1 else 'and it'} met a fault that was armed"
    return f"{head}, {alone:,} with no armed fault on the way"


def _bars(axes: Axes, failed: list[Try]) -> int:
    """Draws the most frequent errors, stacked by fault; how many kinds were left out."""
    totals = Counter(one.error or "" for one in failed)
    ranked = sorted(totals, key=lambda error: (-totals[error], error))
    for row, error in enumerate(ranked[:MOST_ROWS]):
        _bar(axes, row, [one for one in failed if one.error == error], len(failed))
    rows = min(len(ranked), MOST_ROWS)
    axes.set_ylim(max(rows, 4) - 0.45, -0.55)
    axes.set_yticks(range(rows), [printable(words(error), 34) for error in ranked[:MOST_ROWS]])
    axes.tick_params(axis="y", labelcolor=INK, labelsize=10.5, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.tick_params(axis="x", length=0)
    axes.grid(True, axis="x")
    axes.set_xlabel("failed tries")
    return len(ranked) - rows


def _bar(axes: Axes, row: int, tries: list[Try], total: int) -> None:
    by_fault = Counter(one.fault for one in tries)
    left = 0
    for kind in [*in_order({kind for kind in by_fault if kind}, FAULTS), None]:
        number = by_fault.get(kind, 0)
        color = INK if kind is None else fault_color(kind)
        axes.barh(row, number, left=left, height=0.6, color=color)
        left += number
    links = Counter(one.link for one in tries)
    label = f"{left}  ({percent(left / total)})"
    axes.annotate(
        label,
        (left, row),
        (7, 0),
        textcoords="offset points",
        va="center",
        weight="bold",
        annotation_clip=False,
    )
    most = ", ".join(f"{link} {n}" for link, n in links.most_common(4)) + (" …" if len(links) > 4 else "")
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(most, (0, row), (-9, -14), ha="right", va="center", size=8, color=MUTED, **place)
