"""How the prompts ended: one bar an outcome, with what the word means."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes

from wirefault.core.percent import percent
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.charts.data import Selection
from wirefault.report.charts.palette import INK, MUTED, NOT_JUDGED, in_order, outcome_color
from wirefault.report.charts.style import Page, at_end, beside, page, say_nothing
from wirefault.report.charts.text import count, words
from wirefault.stats.intervals import wilson

_ROW_HEIGHT = 0.4  # of a name with its meaning below


def draw_outcomes(selection: Selection) -> Page:
    total = len(selection.prompts)
    counts = tally(selection)
    height = max(5.625, 1.7 + len(counts) * _ROW_HEIGHT)
    sheet = page(_finding(counts, total), selection, height)
    if not total:
        return say_nothing(sheet, "No prompt was begun in this run.")
    draw_bars(sheet.axes(left=3.8, right=1.95, top=1.2, bottom=0.5), counts, total, explain=True)
    absent = [words(name) for name in OUTCOMES if name not in counts]
    note = f"None: {', '.join(absent)}.  " if absent else ""
    sheet.foot(note + "Lines: 95 % interval of each share, taken alone.")
    return sheet


def tally(selection: Selection) -> dict[str, int]:
    """Outcome to count, in the palette's order; what has no verdict counts as not judged."""
    counts = Counter(prompt.outcome or NOT_JUDGED for prompt in selection.prompts)
    return {name: counts[name] for name in in_order(set(counts), OUTCOMES)}


def _finding(counts: dict[str, int], total: int) -> str:
    if not total:
        return "No outcomes: no prompt was begun"
    if set(counts) == {"success"}:
        return f"All {total} prompts succeeded" if total > 1 else "The prompt succeeded"
    others = sorted((item for item in counts.items() if item[0] != "success"), key=lambda item: -item[1])
    ranked = [("success", counts.get("success", 0)), *others]
    named = ", ".join(f"{number} {words(name)}" for name, number in ranked[:4])
    return f"{count(total, 'prompt')}: {named}{' …' if len(ranked) > 4 else ''}"


def draw_bars(axes: Axes, counts: dict[str, int], total: int, explain: bool) -> None:
    """Horizontal bars with count and share at their ends; ``explain`` adds meaning and interval."""
    most = 0.25
    meanings: dict[str, str] = {row.name: row.meaning for row in OUTCOMES.values()}
    for row, (name, number) in enumerate(counts.items()):
        share = number / total
        axes.barh(row, share, height=0.62, color=outcome_color(name), edgecolor=MUTED, linewidth=0.4)
        end = _whisker(axes, row, number, total) if explain else share
        most = max(most, end)
        at_end(axes, f"{number}  ({percent(share, decimals=0)})", end, row)
        beside(axes, words(name), 0, row, -9, 7 if explain else 0, ha="right")
        if explain and name in meanings:
            beside(axes, meanings[name], 0, row, -9, -7, ha="right", size=8.5, color=MUTED)
    rows = max(len(counts), 4 if explain else 3)
    axes.set_ylim(rows - 0.45, -0.55)
    axes.set_xlim(0, most)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)


def _whisker(axes: Axes, row: int, number: int, total: int) -> float:
    """The interval of a share as a line; where it ends."""
    low, high = wilson(number, total) or (0.0, 1.0)
    for color, width in (("white", 3.0), (INK, 1.2)):
        axes.plot([low, high], [row, row], color=color, linewidth=width)
    return high
