"""Charts as SVG that scales with the page: horizontal positions are percentages, text keeps its size. Pure.

Colours come from the page's style sheet by class, so that a chart follows light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from markupsafe import Markup, escape

from wirefault.history.logs import strip_control
from wirefault.report.page.phrase import marked_up

ROW = 26
_AXIS = 30
_BAR = 14
_MAX_TICKS = 6
_TICK_GAP = 4.0
"""Percent of the width between the numbers below an axis of points."""


class Scale(Protocol):
    """Maps a value to a percentage of the width."""

    def __call__(self, value: float) -> float: ...


def linear(low: float, high: float) -> Scale:
    """Return a scale from ``low`` to ``high``; values outside are moved to the edge."""
    span = (high - low) or 1.0
    return lambda value: round(100 * min(max((value - low) / span, 0.0), 1.0), 3)


def logarithmic(low: float, high: float) -> Scale:
    """Return a scale by orders of magnitude; both ends are positive."""
    inner = linear(math.log10(low), math.log10(high))
    return lambda value: inner(math.log10(max(value, low)))


def ticks(low: float, high: float, most: int = _MAX_TICKS) -> list[float]:
    """Return round values from ``low`` to ``high``, at most ``most``."""
    if not math.isfinite(low + high) or high <= low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first
    return [round((first + place) * step, 12) for place in range(count + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return the powers of ten around positive values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _svg(height: float, parts: Iterable[str], label: str, kind: str) -> Markup:
    role = "group" if kind == "timeline" else "img"  # a time line contains links
    return Markup(
        f'<svg class="chart {kind}" role="{role}" aria-label="{_inert(label)}" height="{height:g}"'
        f' width="100%">{"".join(parts)}</svg>'
    )


def _text(x: str, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """``x`` with its unit."""
    classes = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y:g}" text-anchor="{anchor}"{classes}>{marked_up(text, "tspan")}</text>'


def _inert(text: str) -> Markup:
    """Return the text for an attribute or a title, without control characters."""
    return escape(strip_control(text))


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    inner = f"<title>{_inert(title)}</title>" if title else ""
    return f'<rect x="{x:g}%" y="{y:g}" width="{width:g}%" height="{height:g}" class="{kind}">{inner}</rect>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}%" y1="{y1:g}" x2="{x2:g}%" y2="{y2:g}" class="{kind}"/>'


def _axis(scale: Scale, values: Sequence[float], top: float, bottom: float, unit: str) -> Iterator[str]:
    """Grid lines with their values, and the unit at the right."""
    for value in values:
        x = scale(value)
        anchor = "start" if x < 3 else "end" if x > 97 else "middle"
        yield _line(x, top, x, bottom, "grid")
        yield _text(f"{x:g}%", bottom + 14, f"{value:g}", "tick", anchor)
    yield _text("100%", bottom + 27, unit, "unit", "end")


@dataclass(frozen=True)
class Share:
    """A part of a stacked bar."""

    name: str
    """Also the class of its colour: ``o-NAME``."""
    count: int
    text: str = ""
    """The count as a figure."""


@dataclass(frozen=True)
class StackedRow:
    """One bar with its label above it."""

    label: str
    shares: Sequence[Share]


def stacked_bars(rows: Sequence[StackedRow], label: str, unit: str) -> Markup:
    """Draw one bar for each row, with counts in the parts that have room for them."""
    most = max((sum(share.count for share in row.shares) for row in rows), default=0) or 1
    scale, y = linear(0, most), 0.0
    parts: list[str] = []
    bottom = len(rows) * (ROW + 12)
    parts += _axis(scale, [tick for tick in ticks(0, most) if tick == int(tick)], 0, bottom, unit)
    for row in rows:
        parts.append(_text("0", y + 12, row.label, "label"))
        before = 0
        for share in row.shares:
            x, width = scale(before), scale(share.count)
            title = f"{row.label}: {share.name} {share.count}"
            parts.append(_rect(x, y + 17, width, _BAR + 2, f"o-{share.name}", title))
            if width > 4:
                parts.append(
                    _text(f"{x + width / 2:g}%", y + 29, share.text or str(share.count), "inside", "middle")
                )
            before += share.count
        y += ROW + 12
    return _svg(bottom + _AXIS, parts, label, "stacked")


@dataclass(frozen=True)
class IntervalRow:
    """A figure with its interval; ``value`` None: only the interval is known; no ``low``: neither is."""

    label: str
    low: float | None
    high: float | None
    value: float | None = None
    note: str = ""
    kind: str = ""
    """A class for its colour."""


def intervals(
    rows: Sequence[IntervalRow], label: str, unit: str, *, zero: bool = False, logarithm: bool = False
) -> Markup:
    """Draw a line from ``low`` to ``high`` for each row, and a dot at its value.

    ``zero``: the axis includes 0, which is marked. ``logarithm``: the axis is one of magnitudes, for positive
    values.
    """
    edges = [edge for row in rows for edge in (row.low, row.high, row.value) if edge is not None]
    edges = [edge for edge in edges if math.isfinite(edge)] or [0.0, 1.0]
    if logarithm:
        marks = decades(min(edges), max(edges))
        scale = logarithmic(marks[0], marks[-1])
    else:
        edges += [0.0] if zero or not edges else []
        marks = ticks(min(edges), max(*edges, min(edges) + 1e-9))
        step = marks[1] - marks[0] if len(marks) > 1 else 1.0
        low, high = math.floor(min(edges) / step) * step, math.ceil(max(edges) / step) * step
        marks = ticks(low, max(high, low + step))
        scale = linear(marks[0], marks[-1])
    parts: list[str] = []
    bottom, y = len(rows) * (ROW + 12), 0.0
    parts += _axis(scale, marks, 0, bottom, unit)
    if zero and not logarithm:
        parts.append(_line(scale(0.0), 0, scale(0.0), bottom, "zero"))
    for row in rows:
        middle, kind = y + 25, f"interval {row.kind}".rstrip()
        parts.append(_text("0", y + 12, row.label, "label"))
        parts.append(_text("100%", y + 12, row.note, "note", "end"))
        if row.low is not None and row.high is not None:
            left, right = scale(row.low), scale(row.high)
            parts.append(_line(left, middle, right, middle, kind))
            parts += [_line(end, middle - 4, end, middle + 4, kind) for end in (left, right)]
        if row.value is not None:
            x = scale(row.value)
            parts.append(f'<circle cx="{x:g}%" cy="{middle:g}" r="5" class="dot {row.kind}"/>')
        y += ROW + 12
    return _svg(bottom + _AXIS, parts, label, "intervals")


@dataclass(frozen=True)
class LevelPoint:
    """A value with its interval over a place on a numeric axis; ``value`` None: only the interval."""

    x: float
    value: float | None
    low: float
    high: float
    text: str
    """The value in words."""
    kind: str = ""


class Band(NamedTuple):
    """An estimate on the ``x`` axis with its interval, for the place at which a share is reached."""

    low: float
    value: float
    high: float
    share: float


def shares_by_level(
    series: Sequence[LevelPoint],
    label: str,
    unit_x: str,
    unit_y: str,
    *,
    height: float = 190,
    band: Band | None = None,
    span: tuple[float, float] | None = None,
) -> Markup:
    """Draw percentages from 0 to 100 over ``x``, with their intervals; no curve joins them.

    ``band``: shaded, up to the ends of the axis. ``span``: ends of the axis; default: of the points.
    """
    ends = [*(point.x for point in series), *(span or ())]
    margin = (max(ends) - min(ends) or 1.0) / 6
    left, right = min(ends) - margin, max(ends) + margin
    scale, parts = linear(left, right), []
    top, bottom = 26.0, 26.0 + height

    def at(share: float) -> float:
        return bottom - height * min(max(share, 0.0), 1.0)

    if band is not None:
        low, value, high = (scale(min(max(x, left), right)) for x in band[:3])
        parts.append(_rect(low, top, max(high - low, 0.2), height, "span shade"))
        parts.append(_line(value, top, value, bottom, "limit"))
        parts.append(_line(0, at(band.share), 100, at(band.share), "limit"))
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_line(0, at(share), 100, at(share), "grid"))
        parts.append(_text("0", at(share) - 3, f"{100 * share:g} %", "tick"))
    parts.append(_text("0", 10, unit_y, "unit"))
    for point in series:
        x, kind = scale(point.x), f"interval {point.kind}".rstrip()
        parts.append(_line(x, at(point.low), x, at(point.high), kind))
        parts += [_line(x - 0.7, at(end), x + 0.7, at(end), kind) for end in (point.low, point.high)]
        if point.value is not None:
            parts.append(f'<circle cx="{x:g}%" cy="{at(point.value):g}" r="5" class="dot {point.kind}"/>')
            beside = min(max(at(point.value) + 4, top + 4), bottom - 2)
            parts.append(_text(f"{x + 1.2:g}%", beside, point.text, "note beside"))
    last = -100.0
    for x in sorted(set(ends)):
        if scale(x) - last >= _TICK_GAP:
            parts.append(_text(f"{scale(x):g}%", bottom + 15, f"{x:g}", "tick", "middle"))
            last = scale(x)
    parts.append(_text("100%", bottom + 29, unit_x, "unit", "end"))
    return _svg(bottom + 34, parts, label, "points")


@dataclass(frozen=True)
class HeatCell:
    """A share of a heat map, in words; None: no data."""

    share: float | None
    text: str
    more: str = ""


def heat_map(
    columns: Sequence[str], rows: Sequence[tuple[str, Sequence[HeatCell]]], label: str, unit: str
) -> Markup:
    """Draw a cell for each row and column, darker the lower its share; its figure is written into it."""
    parts: list[str] = []
    left, height = 22.0, 44.0
    width = (100 - left) / max(len(columns), 1)
    for place, column in enumerate(columns):
        parts.append(_text(f"{left + (place + 0.5) * width:g}%", 14, column, "tick", "middle"))
    for number, (name, cells) in enumerate(rows):
        y = 22 + number * height
        parts.append(_text("0", y + height / 2 + 4, name, "label"))
        for place, cell in enumerate(cells):
            x = left + place * width
            kind = "heat none" if cell.share is None else f"heat h{round(10 * (1 - cell.share))}"
            parts.append(_rect(x + 0.15, y + 1, width - 0.3, height - 2, kind))
            dark = " dark" if cell.share is not None and cell.share < 0.45 else ""
            middle = f"{x + width / 2:g}%"
            parts.append(_text(middle, y + 19, cell.text, f"heat-text{dark}", "middle"))
            parts.append(_text(middle, y + 34, cell.more, f"heat-more{dark}", "middle"))
    bottom = 22 + len(rows) * height
    parts.append(_text("100%", bottom + 15, unit, "unit", "end"))
    return _svg(bottom + 20, parts, label, "heatmap")


@dataclass(frozen=True)
class Point:
    """A share of 1 with its interval, against a cost."""

    label: str
    cost: float
    share: float
    low: float
    high: float


_PLANE = 220
_LABEL_LEFT = 70
"""Labels of points beyond this percentage of the width stand on the left of the point."""


def shares_against(points: Sequence[Point], label: str, unit: str) -> Markup:
    """Draw the share of each point upwards, with its interval, and its cost to the right."""
    marks = ticks(0, max((point.cost for point in points), default=0) or 1)
    step = marks[1] - marks[0] if len(marks) > 1 else marks[0] or 1
    scale = linear(0, marks[-1] + step)

    def height(share: float) -> float:
        return round(12 + (1 - share) * (_PLANE - 24), 1)

    parts = list(_axis(scale, marks, 0, _PLANE, unit))
    for share in (0, 0.5, 1):
        parts.append(_line(0, height(share), 100, height(share), "grid"))
        parts.append(_text("0", height(share) - 3, f"{100 * share:g} %", "tick"))
    for point in points:
        x = scale(point.cost)
        anchor, text = (
            ("end", f"{point.label}\u2002") if x > _LABEL_LEFT else ("start", f"\u2002{point.label}")
        )
        parts.append(_line(x, height(point.low), x, height(point.high), "interval"))
        parts.append(f'<circle cx="{x:g}%" cy="{height(point.share):g}" r="5" class="dot"/>')
        parts.append(_text(f"{x:g}%", height(point.share) - 7, text, "label", anchor))
    return _svg(_PLANE + _AXIS, parts, label, "intervals")


@dataclass(frozen=True)
class Span:
    """Part of a lane of a time line, in seconds; a request links to its event."""

    start: float
    end: float
    kind: str
    """Class of its look: ``attempt``, ``request``, ``failed``, ``shade``."""
    title: str
    href: str = ""
    mark: bool = False
    """A fault was injected into it."""


def time_line(lanes: Mapping[str, Sequence[Span]], seconds: float, label: str) -> Markup:
    """Draw a lane for agent, model and each link, with time from the left. ``seconds``: the whole length."""
    seconds = max(seconds, 1e-3)
    scale = linear(0, seconds)
    parts: list[str] = []
    height = ROW + 10
    bottom = len(lanes) * height
    unit, factor = ("s", 1.0) if seconds >= 1 else ("ms", 1000.0)
    marks = ticks(0, seconds * factor)
    axis = linear(0, seconds * factor)
    parts += _axis(axis, marks, 0, bottom, unit)
    for place, (name, spans) in enumerate(lanes.items()):
        y = place * height
        parts.append(_line(0, y + height, 100, y + height, "lane"))
        for span in sorted(spans, key=lambda span: span.kind != "shade"):
            x = scale(span.start)
            width = max(scale(span.end) - x, 0.4)
            top, size = (y + 1, height - 2) if span.kind == "shade" else (y + 16, _BAR)
            drawn = _rect(min(x, 99.6), top, width, size, f"span {span.kind}", span.title)
            if span.mark:
                drawn += _text(f"{min(x, 98):g}%", y + 14, "▼", "fault-mark")
            if span.href:
                drawn = f'<a href="{_inert(span.href)}" aria-label="{_inert(span.title)}">{drawn}</a>'
            parts.append(drawn)
        parts.append(_text("2", y + 12, name, "label lane-name"))
    return _svg(bottom + _AXIS, parts, label, "timeline")


def different_parts(one: str, other: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Split two texts into equal beginning, different middle and equal end."""
    most = min(len(one), len(other))
    begin = next((place for place in range(most) if one[place] != other[place]), most)
    end = next((place for place in range(most - begin) if one[-1 - place] != other[-1 - place]), most - begin)

    def split(text: str) -> tuple[str, str, str]:
        return text[:begin], text[begin : len(text) - end], text[len(text) - end :]

    return split(one), split(other)
