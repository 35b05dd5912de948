"""How the prompts ended: one bar an outcome, with what the word means."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes

from windtunnel.intervals import wilson
from windtunnel.report.charts.data import Selection
from windtunnel.report.charts.heading import subtitle
from windtunnel.report.charts.palette import INK, MUTED, NOT_JUDGED, OUTCOMES, in_order, outcome_color
from windtunnel.report.charts.style import LEFT, Heading, Page, page, say_nothing
from windtunnel.report.charts.text import count, percent, printable, words


def draw(selection: Selection) -> Page:
    total = len(selection.prompts)
    counts = tally(selection)
    sheet = page(Heading(_finding(counts, total), subtitle(selection)))
    if not total:
        return say_nothing(sheet, "No prompt was begun in this run.")
    grid = sheet.grid(1, 1, left=3.35, right=1.95, top=1.2, bottom=0.5)
    axes = sheet.figure.add_subplot(grid[0])
    draw_bars(axes, counts, total, explain=True)
    absent = [words(name) for name in OUTCOMES if name not in counts]
    note = f"None: {', '.join(absent)}.  " if absent else ""
    note += "Lines: 95 % interval of each share, taken alone."
    sheet.text(LEFT, sheet.height - 0.15, note, size=9, color=MUTED, va="bottom")
    return sheet


def tally(selection: Selection) -> dict[str, int]:
    """Outcome to count, in the palette's order; what has no verdict counts as not judged."""
    found = Counter(prompt.outcome or NOT_JUDGED for prompt in selection.prompts)
    return {name: found[name] for name in in_order(set(found), OUTCOMES)}


def _finding(counts: dict[str, int], total: int) -> str:
    if not total:
        return "No outcomes: no prompt was begun"
    wrong = {name: n for name, n in counts.items() if name != "success"}
    if not wrong:
        return f"All {total} prompts succeeded" if total > 1 else "The prompt succeeded"
    worst = sorted(wrong.items(), key=lambda pair: -pair[1])
    rest = ", ".join(f"{n} {words(name)}" for name, n in worst[:3]) + (" …" if len(worst) > 3 else "")
    return f"{counts.get('success', 0)} of {count(total, 'prompt')} succeeded; {rest}"


def draw_bars(axes: Axes, counts: dict[str, int], total: int, explain: bool) -> None:
    """Horizontal bars with count and share at their ends; ``explain`` adds meaning and interval."""
    for row, (name, number) in enumerate(counts.items()):
        axes.barh(row, number / total, height=0.62, color=outcome_color(name), edgecolor=MUTED, linewidth=0.4)
        end = number / total
        if explain:
            end = _whisker(axes, row, number, total)
        label = f"{number}  ({percent(number / total)})"
        axes.annotate(
            label,
            (end, row),
            (7, 0),
            textcoords="offset points",
            va="center",
            weight="bold",
            annotation_clip=False,
        )
        _name(axes, row, name, explain)
    rows = max(len(counts), 4 if explain else 3)
    axes.set_ylim(rows - 0.45, -0.55)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)


def _whisker(axes: Axes, row: int, number: int, total: int) -> float:
    interval = wilson(number, total)
    if interval is None:
        return number / total
    axes.plot([interval.low, interval.high], [row, row], color=INK, linewidth=1.1)
    return max(interval.high, number / total)


def _name(axes: Axes, row: int, name: str, explain: bool) -> None:
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
    lift = 7 if explain else 0
    axes.annotate(printable(words(name), 30), (0, row), (-9, lift), ha="right", va="center", **place)
    if explain and name in OUTCOMES:
        meaning = OUTCOMES[name][1]
        axes.annotate(meaning, (0, row), (-9, -7), ha="right", va="center", size=8.5, color=MUTED, **place)
