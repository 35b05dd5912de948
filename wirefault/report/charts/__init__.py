"""Charts of runs, from their histories, as PNG files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from wirefault.core.files import replace_shared
from wirefault.judging.chart_data import ChartsError, Selection
from wirefault.report.charts import (
    errors,
    outcomes,
    overview,
    times,
)
from wirefault.report.charts.select import select_runs
from wirefault.report.charts.style import DPI, Page, styled

CHARTS: dict[str, Callable[[Selection], Page]] = {
    "overview": overview.draw_overview,
    "outcomes": outcomes.draw_outcomes,
    "success": outcomes.draw_success,
    "throughput": times.draw_throughput,
    "latency": times.draw_latency,
    "response_time": times.draw_response,
    "errors": errors.draw_errors,
}


def write_charts(selection: Selection, folder: Path, root: Path | None = None) -> list[Path]:
    """Draw every chart of ``CHARTS`` into the folder and return the files written. Raises ``OSError``.

    The same histories give the same bytes: files do not depend on the time of drawing. ``root`` is the shared
    folder that contains ``folder``, if any: links below it are not followed.
    """
    written = []
    for name, chart in CHARTS.items():
        path, png = folder / f"{name}.png", io.BytesIO()
        with styled():
            chart(selection).figure.savefig(png, dpi=DPI, metadata={"Software": None})
        replace_shared(root or folder, path, png.getvalue())
        written.append(path)
    return written


__all__ = ["CHARTS", "ChartsError", "Selection", "select_runs", "write_charts"]
