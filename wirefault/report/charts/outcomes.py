"""Outcomes of the prompts: one bar per outcome, with an explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes

from wirefault.judging.chart_data import ChartedPrompt, RunData, Selection
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.rates import CLAIM_WORDS, UncheckedClaims
from wirefault.report.charts.style import (
    ACCENT,
    FAINT,
    INK,
    LEAST_FOR_CURVE,
    LEFT,
    MUTED,
    NOT_JUDGED,
    Page,
    at_end,
    beside,
    claims_in,
    count,
    in_order,
    key,
    left_out,
    outcome_color,
    page,
    percent_range,
    printable,
    say_nothing,
    seconds_axis,
    success_rate,
    success_title,
    uncounted,
    words,
)
from wirefault.stats.exact import clopper_pearson
from wirefault.stats.rates import percent

_ROW_HEIGHT = 0.4  # of a name with its meaning below
_CLAIM_HEIGHT = 0.32


def draw_outcomes(selection: Selection) -> Page:
    total = len(selection.prompts)
    counts = tally(selection)
    claims = claims_in(selection)
    below = 0.95 + len(claims.counts) * _CLAIM_HEIGHT if claims.n else 0.0
    height = max(5.625, 1.7 + len(counts) * _ROW_HEIGHT + below)
    has_judged = set(counts) - {"unjudged", NOT_JUDGED}
    title = _finding(counts, total) if has_judged or not claims.n else claims.headline
    sheet = page(title, selection, height)
    if not total:
        return say_nothing(sheet, "No prompts started in this run.")
    draw_bars(sheet.axes(left=3.8, right=1.95, top=1.2, bottom=0.5 + below), counts, total, explain=True)
    if claims.n:
        _draw_claims(sheet, claims, below)
    absent = [words(name) for name in OUTCOMES if name not in counts]
    note = f"None: {', '.join(absent)}.  " if absent else ""
    sheet.foot(note + "Lines: 95 % interval of each share, taken alone.")
    return sheet


def _draw_claims(sheet: Page, claims: UncheckedClaims, height: float) -> None:
    """Draw what the agent said where no oracle checks it: hatched bars without colour."""
    heading, _, _ = claims.text.partition(";")  # the bars show the others
    sheet.text(LEFT, sheet.height - height - 0.2, heading, size=10.5, weight="bold", color=INK)
    draw_claim_bars(sheet.axes(left=3.8, right=1.95, top=sheet.height - height + 0.05, bottom=0.75), claims)


def draw_claim_bars(axes: Axes, claims: UncheckedClaims) -> None:
    """Draw a bar for each claim, with its share."""
    for row, (claim, number) in enumerate(claims.counts.items()):
        share = number / claims.n
        axes.barh(row, share, height=0.62, color="white", edgecolor=MUTED, hatch="////", linewidth=0.6)
        at_end(axes, f"{number}  ({percent(share, decimals=0)})", share, row)
        beside(axes, CLAIM_WORDS[claim], 0, row, -9, ha="right", color=MUTED)
    axes.set_ylim(len(claims.counts) - 0.45, -0.55)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)


def tally(selection: Selection) -> dict[str, int]:
    """Count episodes by outcome, in the palette's order; those without a verdict count as not judged."""
    counts = Counter(prompt.outcome or NOT_JUDGED for prompt in selection.prompts)
    return {name: counts[name] for name in in_order(set(counts), OUTCOMES)}


def _finding(counts: dict[str, int], total: int) -> str:
    if not total:
        return "No outcomes: no prompts started"
    if set(counts) == {"success"}:
        return f"All {total} prompts succeeded" if total > 1 else "The prompt succeeded"
    others = sorted((item for item in counts.items() if item[0] != "success"), key=lambda item: -item[1])
    ranked = [("success", counts.get("success", 0)), *others]
    named = ", ".join(f"{number} {words(name)}" for name, number in ranked[:4])
    return f"{count(total, 'prompt')}: {named}{' …' if len(ranked) > 4 else ''}"


def draw_bars(axes: Axes, counts: dict[str, int], total: int, explain: bool) -> None:
    """Draw horizontal bars with count and share at their ends; ``explain`` adds meaning and interval."""
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
    """Draw the interval of a share as a line; return its end."""
    low, high = clopper_pearson(number, total, 0.95) or (0.0, 1.0)
    for color, width in (("white", 3.0), (INK, 1.2)):
        axes.plot([low, high], [row, row], color=color, linewidth=width)
    return high


_MAX_RUNS = 20


def draw_success(selection: Selection) -> Page:
    overall = success_rate(selection)
    sheet = page(success_title(overall, selection), selection)
    claims = claims_in(selection)
    if overall.n == 0:
        if not claims.n:
            return say_nothing(sheet, left_out(overall, selection) or "No prompts were judged in this run.")
        sheet.text(LEFT, 1.2, claims.text[:1].upper() + claims.text[1:], size=10.5, weight="bold")
        bottom = sheet.height - 1.5 - len(claims.counts) * 2 * _CLAIM_HEIGHT
        draw_claim_bars(sheet.axes(left=1.5, right=1.95, top=1.5, bottom=bottom), claims)
    elif selection.several:
        _each_run(sheet, selection)
    else:
        _one_run(sheet, selection.runs[0])
    sheet.foot(uncounted(overall, selection))
    return sheet


def _one_run(sheet: Page, run: RunData) -> None:
    grid = sheet.grid(2, 1, left=1.1, right=1.35, top=1.5, bottom=0.55, height_ratios=[10, 1], hspace=0.55)
    axes = sheet.figure.add_subplot(grid[0])
    draw_running_rate(axes, run)
    _draw_strip(sheet.figure.add_subplot(grid[1]), run)
    names = {prompt.outcome for prompt in run.prompts if prompt.outcome}
    key(sheet, 1.12, [(outcome_color(name), words(name)) for name in in_order(names, OUTCOMES)])


_MAX_INTERVALS = 400
"""Intervals along the curve: each takes a millisecond, and more cannot be seen."""


def draw_running_rate(axes: Axes, run: RunData) -> None:
    """Draw the rate after each judged prompt; from ten prompts on as a curve with the interval so far."""
    counted = sorted((p for p in run.prompts if p.counts), key=lambda prompt: prompt.judged or 0.0)
    times = [prompt.judged or 0.0 for prompt in counted]
    successes = _so_far(counted)
    shares = [k / n for n, k in enumerate(successes, start=1)]
    step = max(len(successes) // _MAX_INTERVALS, 1)
    numbers = sorted({*range(1, len(successes) + 1, step), len(successes)})
    sure = [clopper_pearson(successes[n - 1], n, 0.95) or (0.0, 1.0) for n in numbers]
    sure.append(sure[-1])
    low, high = [interval[0] for interval in sure], [interval[1] for interval in sure]
    ends = [*times, run.length]
    if len(times) >= LEAST_FOR_CURVE:
        places = [*(times[n - 1] for n in numbers), run.length]
        axes.fill_between(places, low, high, step="post", color=ACCENT, alpha=0.16, linewidth=0)
        axes.step(ends, [*shares, shares[-1]], where="post", color=ACCENT, linewidth=2.2)
    axes.plot([run.length] * 2, sure[-1], color=ACCENT, alpha=0.4, linewidth=3.5, solid_capstyle="butt")
    if len(times) <= 30:
        axes.plot(times, shares, "o", color=ACCENT, markersize=4.5, clip_on=False)
    _share_axis(axes, vertical=True)
    seconds_axis(axes, run.length)
    _label_end(axes, shares[-1], sure[-1], len(shares))


def _so_far(counted: list[ChartedPrompt]) -> list[int]:
    """Return how many had succeeded after each prompt."""
    successes, total = [], 0
    for prompt in counted:
        total += prompt.outcome == "success"
        successes.append(total)
    return successes


def _label_end(axes: Axes, share: float, sure: tuple[float, float], n: int) -> None:
    beside(axes, percent(share, decimals=0), 1, share, 9, size=17, weight="bold", color=ACCENT)
    text = f"95 % interval\n{percent_range(*sure)}\nn = {n}"
    below = share > 0.35
    dy, va = (-16, "top") if below else (16, "bottom")
    beside(axes, text, 1, share, 10, dy, va=va, size=9, color=MUTED, linespacing=1.35)


def _share_axis(axes: Axes, vertical: bool) -> None:
    axis = axes.yaxis if vertical else axes.xaxis
    (axes.set_ylim if vertical else axes.set_xlim)(-0.025, 1.025)
    ticks = [0, 0.25, 0.5, 0.75, 1.0] if vertical else [0, 0.5, 1.0]
    axis.set_ticks(ticks, labels=[percent(tick, decimals=0) for tick in ticks])
    axis.set_label_text("success rate")
    axis.grid(True)


def _draw_strip(axes: Axes, run: RunData) -> None:
    """Draw one cell per prompt in its outcome's colour, in order of the verdicts, all of the same width."""
    judged = sorted((p for p in run.prompts if p.outcome), key=lambda prompt: prompt.judged or 0.0)
    gap = 0.12 if len(judged) <= 120 else 0.0
    colors = [outcome_color(prompt.outcome or "") for prompt in judged]
    axes.bar(range(len(judged)), 1, 1 - gap, color=colors)
    axes.set_xlim(-0.5, max(len(judged), 12) - 0.5)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    axes.set_title("Each prompt in turn", size=9.5, weight="normal", color=MUTED)


def _each_run(sheet: Page, selection: Selection) -> None:
    latest = selection.runs[-_MAX_RUNS:][::-1]
    draw_runs(sheet.axes(left=3.2, right=1.9, top=1.45, bottom=0.9), latest, longest=36)
    older = len(selection.runs) - len(latest)
    note = "newest first" + (f"; {older} older runs are not drawn, the title has them" if older else "")
    sheet.text(LEFT, 1.12, f"Success rate of each run with its 95 % interval, {note}", size=10, color=MUTED)


def draw_runs(axes: Axes, runs: Sequence[RunData], longest: int) -> None:
    """Draw a row per run: rate, interval and n. ``longest``: maximum length of a run's name, in
    characters.
    """
    for row, run in enumerate(runs):
        _run_row(axes, row, run)
    axes.set_ylim(max(len(runs), 5) - 0.4, -0.6)
    axes.set_yticks(range(len(runs)), [printable(run.run_id, longest) for run in runs])
    _share_axis(axes, vertical=False)
    axes.tick_params(axis="y", labelcolor=INK, labelsize=8.5 if len(runs) < 14 else 7.5)
    axes.spines["left"].set_visible(False)


def _run_row(axes: Axes, row: int, run: RunData) -> None:
    rate = success_rate(Selection((run,)))
    text = "not judged"
    if rate.rate is not None and rate.low is not None and rate.high is not None:
        axes.plot([rate.low, rate.high], [row, row], color=ACCENT, linewidth=5, alpha=0.3)
        axes.plot([rate.rate], [row], "o", color=ACCENT, markersize=7, clip_on=False)
        text = f"{percent(rate.rate, decimals=0)}  ({rate.k} of {rate.n})"
    else:
        axes.plot([0, 1], [row, row], color=FAINT, linewidth=1, linestyle=":")
    beside(axes, text, 1, row, 12, size=9.5)
