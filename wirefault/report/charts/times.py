"""Network latency of each link over time, with the intervals of its faults shaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from wirefault.core.caller_errors import ERROR_KINDS
from wirefault.judging.chart_data import ChartedPrompt, ChartedTry, RunData, Selection
from wirefault.report.charts.style import (
    ACCENT,
    FAILED,
    FAULT_COLORS,
    INK,
    LEAST_FOR_CURVE,
    LEAST_FOR_P95,
    MUTED,
    Page,
    beside,
    count,
    duration,
    fault_color,
    in_order,
    key,
    latency_axis,
    page,
    say_nothing,
    seconds_axis,
    spread,
    words,
)
from wirefault.report.colors import CLEAN
from wirefault.stats.rates import percentile

_STATUS = dict(ERROR_KINDS)


def shade(axes: Axes, selection: Selection, link: str, low: float, high: float) -> None:
    """Draw the link's fault intervals as areas from ``low`` to ``high``, in the colour of their kind.

    Intervals of several runs overlap, faint: one run's fault does not affect another's tries.
    """
    spans = [span for span in selection.spans if span.link == link]
    alpha = 0.35 if selection.several else 1.0
    for kind in in_order({span.kind for span in spans}, FAULT_COLORS):
        of_kind = [span for span in spans if span.kind == kind]
        bars = [(span.start, span.end - span.start) for span in of_kind]
        # without an edge a single request would be too short to see
        edge = 0.4 if of_kind[0].toxic else 2.0
        color = fault_color(kind)
        axes.broken_barh(bars, (low, high - low), color=color, linewidth=edge, alpha=alpha, zorder=1)


def dots(axes: Axes, points: Sequence[tuple[float, float]], tries: Sequence[ChartedTry], crowd: int) -> None:
    """Draw a dot for each try with a reply, a cross for each failed one; smaller for a large ``crowd``."""
    size = 16.0 if crowd < 150 else 9.0 if crowd < 800 else 5.0
    fine = [point for point, tried in zip(points, tries, strict=True) if tried.error is None]
    failed = [point for point, tried in zip(points, tries, strict=True) if tried.error is not None]
    if fine:
        x, y = zip(*fine, strict=True)
        axes.scatter(x, y, s=size, color=INK, alpha=0.75, linewidths=0, zorder=3)
    crosses(axes, failed, size)


def crosses(axes: Axes, points: Sequence[tuple[float, float]], size: float) -> None:
    """Mark failed tries, in every chart alike. ``size``: of an answered try's dot."""
    if points:
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, s=size * 2.4, marker="x", color="white", linewidths=3.2, zorder=4)
        axes.scatter(x, y, s=size * 2.0, marker="x", color=FAILED, linewidths=1.6, zorder=5)


def fault_key(sheet: Page, y_from_top: float, selection: Selection) -> None:
    """Draw a line with the colours of the kinds of fault in these runs, and the marks of their tries."""
    kinds = {span.kind for span in selection.spans} | {t.fault for t in selection.tries if t.fault}
    entries = [(fault_color(kind), fault_name(kind)) for kind in in_order(kinds, FAULT_COLORS)]
    if any(tried.error is not None for tried in selection.tries):
        entries.append((FAILED, "failed try"))
    entries.append((INK, "answered try"))
    key(sheet, y_from_top, entries, marks={"failed try": "x", "answered try": "o"})


def fault_name(kind: str) -> str:
    """Return a toxic's kind, or an HTTP error's kind with its status first."""
    return f"{_STATUS[kind]} {words(kind)}" if kind in _STATUS else words(kind)


_COLUMNS = 2
_ROW_HEIGHT = 1.55


def draw_latency(selection: Selection) -> Page:
    tries = [tried for tried in selection.tries if not tried.direct]
    links = [name for name in selection.links if any(tried.link == name for tried in tries)]
    rows = max(1, -(-len(links) // _COLUMNS))
    height = max(5.625, 2.05 + rows * _ROW_HEIGHT) if links else 5.625
    sheet = page(_finding(tries, selection.models), selection, height)
    if not links:
        return say_nothing(sheet, "No calls over any link in this run.")
    grid = sheet.grid(
        rows,
        _COLUMNS if len(links) > 1 else 1,
        left=0.8,
        right=0.35,
        top=1.7,
        bottom=1.0,
        hspace=0.5,
        wspace=0.16,
    )
    for place, name in enumerate(links):
        axes = sheet.figure.add_subplot(grid[place // _COLUMNS, place % _COLUMNS])
        below = place + _COLUMNS >= len(links)
        _panel(axes, selection, name, tries, below)
    fault_key(sheet, 1.13, selection)
    sheet.foot(_note(selection, links))
    return sheet


def _panel(axes: Axes, selection: Selection, name: str, tries: list[ChartedTry], below: bool) -> None:
    of_link = [tried for tried in tries if tried.link == name]
    latency_axis(axes, [tried.ms for tried in tries], vertical=True)
    low, high = axes.get_ylim()
    shade(axes, selection, name, low, high)
    dots(axes, [(tried.end, max(tried.ms, low)) for tried in of_link], of_link, len(of_link) * 4)
    axes.grid(True, axis="y")
    axes.set_title(name)
    failed = sum(tried.error is not None for tried in of_link)
    answered = [tried.ms for tried in of_link if tried.error is None]
    caption = f"{count(len(of_link), 'try', 'tries')}, {failed} failed"
    caption += f" · {spread(answered)}" if answered else ""
    axes.set_title(caption, loc="right", size=9, weight="normal", color=MUTED)
    seconds_axis(axes, selection.length, selection.several, label=below)
    axes.tick_params(labelbottom=below)


def _finding(tries: list[ChartedTry], models: Collection[str]) -> str:
    tools = [tried for tried in tries if tried.link not in models]
    if not tools:
        return "No tool was called"
    failed = sum(tried.error is not None for tried in tools)
    ending = f"; {failed:,} of {len(tools):,} failed" if failed else ""
    clean = percentile((tried.ms for tried in tools if tried.error is None and tried.fault is None), 50)
    faulted = percentile((tried.ms for tried in tools if tried.error is None and tried.fault), 50)
    medians = ((clean, "clean"), (faulted, "across a fault"))
    parts = [f"{duration(median)} {name}" for median, name in medians if median is not None]
    if not parts:
        return f"All {count(len(tools), 'tool try', 'tool tries')} failed"
    return f"Median of answered tool tries: {', '.join(parts)}{ending}"


def _note(selection: Selection, links: list[str]) -> str:
    shaded = "fault armed in any run" if selection.several else "fault armed"
    parts = [f"A try is drawn where it ended; p50 and the rest are of answered ones. Shaded: {shaded}."]
    silent = [name for name in selection.links if name not in links]
    if silent:
        armed = sum(span.link in silent and span.toxic for span in selection.spans)
        met_by_none = f" ({count(armed, 'toxic')} armed there)" if armed else ""
        parts.append(f"Never called: {', '.join(silent)}{met_by_none}.")
    if selection.witness == "gateway":
        parts.append("Times of agents without a record are the gateway's, without the delays of toxics.")
    direct = sum(tried.direct for tried in selection.tries)
    if direct:
        parts.append(f"{count(direct, 'fallback try', 'fallback tries')} past the proxies not drawn.")
    return " ".join(parts)


MIN_WINDOW = 5  # number of prompts in a moving median: odd, so that one of them is in the middle

# whether a prompt met a fault, the colour of the group, and its name
FAULT_GROUPS = ((False, ACCENT, "met no fault"), (True, "#d55e00", "crossed a fault"))

_Point = tuple[float, float]  # seconds since the start of the run, ms


def draw_response(selection: Selection) -> Page:
    timed = _points(selection.prompts)
    sheet = page(_response_finding(timed, selection), selection)
    if not timed:
        return say_nothing(sheet, "No attempts ended in this run.")
    axes = sheet.axes(left=1.1, right=0.5, top=1.5, bottom=1.05)
    latency_axis(axes, [ms for _, ms in timed], vertical=True)
    chips = []
    for crossed, color, name in FAULT_GROUPS:
        group = [prompt for prompt in selection.prompts if prompt.crossed_fault is crossed]
        if _points(group):
            chips.append((color, f"{count(len(_points(group)), 'prompt')} {name}"))
        _dots(axes, _points(group), color, len(timed))
        for run in selection.runs:
            _line(axes, _points([prompt for prompt in run.prompts if prompt.crossed_fault is crossed]), color)
    axes.grid(True, axis="y")
    axes.set_title("Time that the agent worked on each prompt, all attempts together")
    axes.set_ylabel("working time (logarithmic)")
    seconds_axis(axes, selection.length, selection.several)
    key(sheet, 1.1, chips)
    sheet.foot(
        "A dot is where the last attempt at its prompt ended. Without arming and healing.",
        f"Line: median of {MIN_WINDOW} dots of its colour in a row, or of a tenth of them if that is more;"
        f" from {LEAST_FOR_CURVE} medians on.",
    )
    return sheet


def _points(prompts: Sequence[ChartedPrompt]) -> list[_Point]:
    """Return end and duration of each prompt, in order of their ends."""
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
    """Draw the moving median, unless it has too few points for a curve."""
    line = moving_median(points, max(MIN_WINDOW, len(points) // 20 * 2 + 1))
    if len(line) < LEAST_FOR_CURVE:
        return
    axes.plot([t for t, _ in line], [ms for _, ms in line], color=color, linewidth=2.2, zorder=4)


def moving_median(points: Sequence[_Point], window: int) -> list[_Point]:
    """Return the median of every ``window`` neighbours, at the middle one; empty if there are fewer."""
    half = window // 2
    times = [ms for _, ms in points]
    return [
        (points[middle][0], percentile(times[middle - half : middle + half + 1], 50) or 0.0)
        for middle in range(half, len(points) - half)
    ]


def _response_finding(timed: Sequence[_Point], selection: Selection) -> str:
    middle = percentile((ms for _, ms in timed), 50)
    if middle is None:
        return "No response times: no attempts ended"
    calm = [ms for _, ms in _points([p for p in selection.prompts if not p.crossed_fault])]
    if selection.several or len(calm) < LEAST_FOR_P95:
        return f"Median response time: {duration(middle)} over {count(len(timed), 'prompt')}"
    half = len(calm) // 2
    first, second = percentile(calm[:half], 50) or 0.0, percentile(calm[half:], 50) or 0.0
    return f"Median response time without a fault: first half {duration(first)}, second {duration(second)}"


_NICE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_BINS = 48


def draw_throughput(selection: Selection) -> Page:
    sheet = page(_throughput_finding(selection), selection)
    if not _finishes(selection) and not selection.tries:
        return say_nothing(sheet, "No prompts finished and no calls in this run.")
    grid = sheet.grid(2, 1, left=1.0, right=1.5, top=1.4, bottom=0.85, height_ratios=[3, 2], hspace=0.38)
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


def _throughput_finding(selection: Selection) -> str:
    done, total = len(_finishes(selection)), sum(run.length for run in selection.runs)
    rate = done / total
    figure = f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"
    if not done:
        return f"No prompts finished in {total:.3g} s"
    return f"{count(done, 'prompt')} in {total:.3g} s: {figure}" + (
        f", over {len(selection.runs)} runs" if selection.several else ""
    )


def _finished(axes: Axes, selection: Selection) -> None:
    axes.set_title("Prompts finished")
    axes.set_ylabel("prompts")
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
    if len(times) >= LEAST_FOR_CURVE:
        steps = [0.0, *times, run.length]
        axes.step(steps, [*counts, counts[-1]], where="post", color=color, linewidth=width)
    if len(times) <= 30:
        axes.plot(times, counts[1:], "o", color=color, markersize=width * 1.8, clip_on=False)


def bin_width(length: float) -> float:
    """Return the smallest round number of seconds that makes at most 48 bins."""
    return next((width for width in _NICE if length / width <= _BINS), length / _BINS)


def _tries(axes: Axes, selection: Selection, width: float) -> None:
    """Draw tries by their end, failed ones on top of the others."""
    tries, length = selection.tries, selection.length
    fine = histogram([tried.end for tried in tries if tried.error is None], width, length)
    failed = histogram([tried.end for tried in tries if tried.error is not None], width, length)
    places = [(index + 0.5) * width for index in range(len(fine))]
    axes.bar(places, fine, width * 0.86, color=CLEAN, clip_on=False)
    axes.bar(places, failed, width * 0.86, bottom=fine, color=FAILED, clip_on=False)
    axes.set_title(f"HTTP tries that ended in each {width:g} s")
    axes.set_ylabel("tries")
    top = axes.get_ylim()[1]
    beside(axes, f"{sum(failed):,} failed", 1, top, 8, -12, color=FAILED, weight="bold")
    beside(axes, f"{sum(fine):,} answered", 1, top, 8, -30)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.grid(True, axis="y")


def histogram(times: Sequence[float], width: float, length: float) -> list[int]:
    """Count the times in each bin of that width."""
    bins = [0] * max(1, -int(-length // width))
    for time in times:
        bins[min(max(int(time / width), 0), len(bins) - 1)] += 1
    return bins
