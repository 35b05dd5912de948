"""Figures as words. Pure; what is not known is said, never shown as 0."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.history.logs import strip_control
from windtunnel.stats.intervals import percentile

# A percentile needs values beyond it: with fewer than 20, p95 is the largest and is called that.
LEAST_FOR_P95 = 20


def duration(ms: float) -> str:
    """``0.4 ms``, ``12 ms``, ``1.25 s``, ``2 min 5 s``."""
    if ms < 9.95:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.3g} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def percent(share: float) -> str:
    """A share of 1 in whole percent; the ends only where they are exact."""
    rounded = round(share * 100)
    if rounded == 100 and share < 1:
        return "> 99 %"
    return "< 1 %" if rounded == 0 and share > 0 else f"{rounded} %"


def percent_range(low: float, high: float) -> str:
    return f"{round(low * 100)}-{round(high * 100)} %"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 prompt``, ``2 prompts``, ``2 tries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def words(name: str) -> str:
    """``false_success`` as ``false success``."""
    return name.replace("_", " ")


def spread(values: Sequence[float]) -> str:
    """Median and p95 in words; with too few values for p95 the largest instead."""
    middle = percentile(values, 50)
    if middle is None:
        return "no data"
    if len(values) == 1:
        return duration(middle)
    name, far = ("p95", 95) if len(values) >= LEAST_FOR_P95 else ("max", 100)
    return f"p50 {duration(middle)}, {name} {duration(percentile(values, far) or 0.0)}"


def printable(text: str, longest: int = 160) -> str:
    """On one line and in characters that the charts' font has; longer text ends in an ellipsis."""
    line = " ".join(strip_control(text).split())
    line = "".join(char if char <= "\u024f" or char in "↑↓·–…" else "?" for char in line)
    return line if len(line) <= longest else line[: longest - 1] + "…"
