"""Charts of runs, from their histories, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from windtunnel.report.charts import (
    errors,
    latency,
    outcomes,
    overview,
    response,
    response_over_time,
    success,
    throughput,
)
from windtunnel.report.charts.data import Selection
from windtunnel.report.charts.pick import ChartsError, pick
from windtunnel.report.charts.style import DPI, Page, styled

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


def write_charts(selection: Selection, folder: Path) -> list[Path]:
    """Draws every chart of ``CHARTS`` into the folder; the files written. Raises ``OSError``.

    The same histories give the same bytes: nothing in a file depends on when it was made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in CHARTS.items():
        path = folder / f"{name}.png"
        with styled():
            chart(selection).figure.savefig(path, dpi=DPI, metadata={"Software": None})
        written.append(path)
    return written


__all__ = ["CHARTS", "ChartsError", "Selection", "pick", "write_charts"]
