"""Success rate over time with its Wilson interval; over several runs, the rate of each."""

from __future__ import annotations

from matplotlib.axes import Axes

from windtunnel.intervals import wilson
from windtunnel.report.charts.data import Prompt, RunData, Selection
from windtunnel.report.charts.heading import Rate, rate, subtitle
from windtunnel.report.charts.palette import ACCENT, FAINT, INK, MUTED, OUTCOMES, in_order, outcome_color
from windtunnel.report.charts.style import LEFT, Heading, Page, key, page, say_nothing, seconds_axis
from windtunnel.report.charts.text import percent, percent_range, printable, words

MOST_RUNS = 20


def draw(selection: Selection) -> Page:
    overall = rate(selection.prompts)
    sheet = page(Heading(overall.title(), subtitle(selection)))
    if overall.n == 0:
        return say_nothing(sheet, overall.left_out() or "No prompt was judged in this run.")
    if selection.several:
        _each_run(sheet, selection)
    else:
        _one_run(sheet, selection.runs[0])
    sheet.text(LEFT, sheet.height - 0.13, overall.left_out(), size=9, color=MUTED, va="bottom")
    return sheet


def _one_run(sheet: Page, run: RunData) -> None:
    grid = sheet.grid(2, 1, left=0.8, right=1.35, top=1.5, bottom=0.72, height_ratios=[10, 1], hspace=0.12)
    axes = sheet.figure.add_subplot(grid[0])
    strip = sheet.figure.add_subplot(grid[1])
    draw_running_rate(axes, run)
    axes.tick_params(labelbottom=False)
    _draw_strip(strip, run)
    names = {prompt.outcome for prompt in run.prompts if prompt.outcome}
    key(sheet, 1.12, [(outcome_color(name), words(name)) for name in in_order(names, OUTCOMES)])


def draw_running_rate(axes: Axes, run: RunData) -> None:
    """The rate after each judged prompt, with the interval that its n so far allows."""
    times, rates = _running(list(run.prompts))
    shares = [one.share or 0.0 for one in rates]
    low = [one.interval.low if one.interval else 0.0 for one in rates]
    high = [one.interval.high if one.interval else 1.0 for one in rates]
    ends = [*times, run.length]
    axes.fill_between(
        ends, [*low, low[-1]], [*high, high[-1]], step="post", color=ACCENT, alpha=0.16, linewidth=0
    )
    axes.step(ends, [*shares, shares[-1]], where="post", color=ACCENT, linewidth=2.2)
    if len(times) <= 30:
        axes.plot(times, shares, "o", color=ACCENT, markersize=4.5, clip_on=False)
    _share_axis(axes, vertical=True)
    seconds_axis(axes, run.length, label=False)
    _label_end(axes, rates[-1])


def _running(prompts: list[Prompt]) -> tuple[list[float], list[Rate]]:
    counted = sorted((one for one in prompts if one.counts), key=lambda one: one.judged or 0.0)
    times = [one.judged or 0.0 for one in counted]
    return times, [rate(counted[: n + 1]) for n in range(len(counted))]


def _label_end(axes: Axes, last: Rate) -> None:
    share, interval = last.share or 0.0, last.interval or wilson(0, 1)
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(
        percent(share), (1, share), (9, 0), size=17, weight="bold", color=ACCENT, va="center", **place
    )
    assert interval is not None  # n is at least 1 here
    text = f"95 % interval\n{percent_range(interval.low, interval.high)}\nn = {last.n}"
    below = share > 0.35
    offset = (10, -16 if below else 16)
    axes.annotate(
        text,
        (1, share),
        offset,
        size=9,
        color=MUTED,
        va="top" if below else "bottom",
        linespacing=1.35,
        **place,
    )


def _share_axis(axes: Axes, vertical: bool) -> None:
    axis = axes.yaxis if vertical else axes.xaxis
    (axes.set_ylim if vertical else axes.set_xlim)(0, 1)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axis.grid(True)
    axes.tick_params(length=0)


def _draw_strip(axes: Axes, run: RunData) -> None:
    """One mark a prompt, at the time of its verdict, in its outcome's colour."""
    judged = [prompt for prompt in run.prompts if prompt.outcome and prompt.judged is not None]
    width = max(0.8, min(5.0, 260 / max(1, len(judged))))
    for prompt in judged:
        color = outcome_color(prompt.outcome or "")
        axes.axvline(prompt.judged or 0.0, color=color, linewidth=width, clip_on=False)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    seconds_axis(axes, run.length)
    axes.set_ylabel("each\nprompt", rotation=0, ha="right", va="center", size=9, labelpad=6)


def _each_run(sheet: Page, selection: Selection) -> None:
    shown = selection.runs[-MOST_RUNS:][::-1]
    grid = sheet.grid(1, 1, left=3.2, right=1.9, top=1.35, bottom=0.65)
    axes = sheet.figure.add_subplot(grid[0])
    for row, run in enumerate(shown):
        _run_row(axes, row, run)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [printable(f"{run.run_id}  seed {run.seed}", 44) for run in shown])
    axes.tick_params(axis="y", labelcolor=INK, labelsize=9 if len(shown) < 14 else 7.5)
    _share_axis(axes, vertical=False)
    axes.spines["left"].set_visible(False)
    older = len(selection.runs) - len(shown)
    note = (
        f"newest first; {older} older runs count in the title and are not drawn" if older else "newest first"
    )
    sheet.text(LEFT, 1.12, f"Success rate of each run with its 95 % interval, {note}", size=10, color=MUTED)


def _run_row(axes: Axes, row: int, run: RunData) -> None:
    one = rate(list(run.prompts))
    text = "no prompt judged"
    if one.share is not None and one.interval is not None:
        axes.plot([one.interval.low, one.interval.high], [row, row], color=ACCENT, linewidth=5, alpha=0.3)
        axes.plot([one.share], [row], "o", color=ACCENT, markersize=7, clip_on=False)
        text = f"{percent(one.share)}  ({one.successes} of {one.n})"
    else:
        axes.plot([0, 1], [row, row], color=FAINT, linewidth=1, linestyle=":")
    axes.annotate(
        text,
        (1, row),
        (12, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
        size=9.5,
    )
