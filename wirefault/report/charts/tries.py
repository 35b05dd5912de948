"""How tries and fault intervals are drawn, in every chart with an axis of time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from wirefault.faults.catalogue.http.http_error import ERROR_KINDS
from wirefault.report.charts.data import ChartedTry, Selection
from wirefault.report.charts.palette import FAILED, FAULT_COLORS, INK, MUTED, fault_color, in_order
from wirefault.report.charts.style import LEFT, Page, key
from wirefault.report.charts.text import words

_STATUS = dict(ERROR_KINDS)


def shade(axes: Axes, selection: Selection, link: str, low: float, high: float) -> None:
    """The link's fault intervals as areas from ``low`` to ``high``, in the colour of their kind.

    Those of several runs lie on each other, faint: one run's fault is none of another's tries.
    """
    spans = [span for span in selection.spans if span.link == link]
    alpha = 0.35 if selection.several else 1.0
    for kind in in_order({span.kind for span in spans}, FAULT_COLORS):
        of_kind = [span for span in spans if span.kind == kind]
        bars = [(span.start, span.end - span.start) for span in of_kind]
        # a single request is too short to be seen without an edge
        edge = 0.4 if of_kind[0].toxic else 2.0
        color = fault_color(kind)
        axes.broken_barh(bars, (low, high - low), color=color, linewidth=edge, alpha=alpha, zorder=1)


def dots(axes: Axes, points: Sequence[tuple[float, float]], tries: Sequence[ChartedTry], crowd: int) -> None:
    """A dot for each try that got a reply, a cross for each that failed, the smaller the ``crowd`` is."""
    size = 16.0 if crowd < 150 else 9.0 if crowd < 800 else 5.0
    fine = [point for point, tried in zip(points, tries, strict=True) if tried.error is None]
    failed = [point for point, tried in zip(points, tries, strict=True) if tried.error is not None]
    if fine:
        x, y = zip(*fine, strict=True)
        axes.scatter(x, y, s=size, color=INK, alpha=0.75, linewidths=0, zorder=3)
    if failed:
        x, y = zip(*failed, strict=True)
        axes.scatter(x, y, s=size * 2.4, marker="x", color="white", linewidths=3.2, zorder=4)
        axes.scatter(x, y, s=size * 2.0, marker="x", color=FAILED, linewidths=1.6, zorder=5)


def fault_key(sheet: Page, y_from_top: float, selection: Selection) -> None:
    """A line with the colours of the kinds of fault that these runs had, or a sentence if they had none."""
    kinds = {span.kind for span in selection.spans} | {t.fault for t in selection.tries if t.fault}
    key(sheet, y_from_top, [(fault_color(kind), fault_name(kind)) for kind in in_order(kinds, FAULT_COLORS)])
    if not kinds:
        text = "No fault was armed or injected."
        sheet.text(LEFT, y_from_top, text, size=9.5, color=MUTED, va="center")


def fault_name(kind: str) -> str:
    """A toxic by its kind, an HTTP error with its status before it."""
    return f"{_STATUS[kind]} {words(kind)}" if kind in _STATUS else words(kind)
