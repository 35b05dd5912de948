"""Charts of runs, from their histories, as PNG files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from wirefault.core.shared_files import replace_shared
from wirefault.report.charts import (
    errors,
    latency,
    outcomes,
    overview,
    response,
    response_over_time,
    success,
    throughput,
)
from wirefault.report.charts.data import Selection
from wirefault.report.charts.pick import ChartsError, pick
from wirefault.report.charts.style import DPI, Page, styled

CHARTS: dict[str, Callable[[Selection], Page]] = {
    "overview": overview.draw_overview,
    "outcomes": outcomes.draw_outcomes,
    "success": success.draw_success,
    "throughput": throughput.draw_throughput,
    "latency": latency.draw_latency,
    "response_time": response.draw_response,
    "response_over_time": response_over_time.draw_response_over_time,
    "errors": errors.draw_errors,
}


def write_charts(selection: Selection, folder: Path, root: Path | None = None) -> list[Path]:
    """Draws every chart of ``CHARTS`` into the folder; the files written. Raises ``OSError``.

    The same histories give the same bytes: nothing in a file depends on when it was made. ``root`` is the
    shared folder that ``folder`` lies in, if it does: below it no link is followed.
    """
    written = []
    for name, chart in CHARTS.items():
        path, png = folder / f"{name}.png", io.BytesIO()
        with styled():
            chart(selection).figure.savefig(png, dpi=DPI, metadata={"Software": None})
        replace_shared(root or folder, path, png.getvalue())
        written.append(path)
    return written


__all__ = ["CHARTS", "ChartsError", "Selection", "pick", "write_charts"]
