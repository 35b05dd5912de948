"""Charts: round values on the axis, positions, and the parts in which two texts differ."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.report.page.svg import (
    IntervalRow,
    Share,
    Span,
    StackedRow,
    decades,
    different_parts,
    intervals,
    linear,
    stacked_bars,
    ticks,
    time_line,
)


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-50, 20, [-40, -20, 0, 20]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round(low: float, high: float, values: list[float]) -> None:
    assert ticks(low, high) == values


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e9))
def test_ticks_lie_within_the_axis_and_are_few(low: float, span: float) -> None:
    values = ticks(low, low + span)
    assert 0 <= len(values) <= 8
    assert all(low - span * 1e-6 <= value <= low + span * (1 + 1e-6) for value in values)


def test_decades_enclose_the_values() -> None:
    assert decades(0.3, 250) == [0.1, 1.0, 10.0, 100.0, 1000.0]
    assert decades(10, 10) == [10.0, 100.0]


def test_scale_moves_outliers_to_the_edge() -> None:
    scale = linear(0, 4)
    assert [scale(value) for value in (-1, 0, 1, 4, 9)] == [0, 0, 25, 100, 100]


def test_stacked_bar_has_the_width_of_its_share() -> None:
    picture = stacked_bars(
        [StackedRow("arm", [Share("success", 3), Share("crash", 1)])], "Outcomes", "episodes"
    )
    assert re.findall(r'x="([\d.]+)%" y="17" width="([\d.]+)%"', picture) == [("0", "75"), ("75", "25")]


def test_interval_goes_from_low_to_high() -> None:
    picture = intervals([IntervalRow("a", -10, 30, 20)], "Effects", "points", zero=True)
    assert re.search(r'x1="0%" y1="25" x2="100%"', picture)
    assert 'cx="75%"' in picture
    assert re.search(r'x1="25%"[^>]+class="zero"', picture)


def test_time_line_links_requests_to_their_events() -> None:
    lanes = {"shop": [Span(1, 2, "failed", "POST /orders", "#ep/1/gateway-0:1", mark=True)]}
    picture = time_line(lanes, 4, "Time line")
    assert re.search(r'<a href="#ep/1/gateway-0:1"[^>]*><rect x="25%" y="16" width="25%"', picture)
    assert "▼" in picture


def test_texts_in_charts_are_escaped() -> None:
    picture = time_line({"<b>": [Span(0, 1, "request", '"><script>', "#x")]}, 1, "<i>")
    assert "<b>" not in picture and "<script>" not in picture and "<i>" not in picture


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_different_parts_put_together_are_the_texts(begin: str, one: str, other: str, end: str) -> None:
    first, second = different_parts(begin + one + end, begin + other + end)
    assert ("".join(first), "".join(second)) == (begin + one + end, begin + other + end)
    assert (first[0], first[2]) == (second[0], second[2])
    assert len(first[0]) >= len(begin)
