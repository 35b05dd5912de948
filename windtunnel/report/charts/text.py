"""Figures as words. Pure; what is not known is said, never shown as 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from windtunnel.history import strip_control

# A percentile needs a value beyond it: from n = 20 on for p95, from n = 100 on for p99.
LEAST_FOR_P95 = 20

_ARROWS = {"upstream": " ↑", "downstream": " ↓"}
# kind: (the attribute that matters most, its unit)
_MAIN = {
    "latency": ("latency", "ms"),
    "timeout": ("timeout", "ms"),
    "bandwidth": ("rate", "KB/s"),
    "slow_close": ("delay", "ms"),
    "reset_peer": ("timeout", "ms"),
    "limit_data": ("bytes", "B"),
    "slicer": ("average_size", "B"),
}


def toxic_label(kind: str, stream: str, attributes: Mapping[str, int]) -> str:
    """``latency 1500 ms ↑``: kind, main attribute, and the direction that it acts on."""
    name, unit = _MAIN.get(kind, ("", ""))
    amount = f" {attributes[name]} {unit}" if name in attributes else ""
    return f"{kind}{amount}{_ARROWS.get(stream, '')}"


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


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least that share of the values does not exceed; None of none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def spread(values: Sequence[float]) -> str:
    """Median and p95 in words; with too few values for p95 the slowest instead."""
    middle = quantile(values, 0.5)
    if middle is None:
        return "no data"
    if len(values) == 1:
        return duration(middle)
    name = "p95" if len(values) >= LEAST_FOR_P95 else "max"
    far = quantile(values, 0.95 if name == "p95" else 1.0)
    return f"p50 {duration(middle)}, {name} {duration(far or 0.0)}"


def printable(text: str, longest: int = 160) -> str:
    """On one line and in characters that the charts' font has; longer text ends in an ellipsis."""
    line = " ".join(strip_control(text).split())
    line = "".join(char if char <= "\u024f" or char in "↑↓·–…" else "?" for char in line)
    return line if len(line) <= longest else line[: longest - 1] + "…"
