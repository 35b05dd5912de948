"""Spans of an attempt during which a fault or a toxic is active."""

from __future__ import annotations

import math

import pytest

from wirefault.core.spans import Span


@pytest.mark.parametrize(
    ("span", "positions", "shares"),
    [
        (Span(), [0, 99], [1, 1]),
        (Span(2, 3), [1.99, 2, 4.99, 5], [0, 1, 1, 0]),
        (Span(2, 0, 4), [1, 2, 3, 6, 99], [0, 0, 0.25, 1, 1]),
        (Span(3, 2, unit="calls"), [2, 3, 4, 5], [0, 1, 1, 0]),
        (Span(3, 4, 4, unit="calls"), [2, 3, 4, 6, 7], [0, 0.25, 0.5, 1, 0]),
    ],
)
def test_active_dose_share(span: Span, positions: list[float], shares: list[float]) -> None:
    assert [span.share(position) for position in positions] == shares


def test_clock_ramp_has_four_steps() -> None:
    span = Span(1, 6, ramp=3)
    assert [span.step(second) for second in (0.9, 1, 1.9, 2, 3, 3.9, 4, 6.9, 7)] == [
        *(0, 0.25, 0.25, 0.5, 0.75, 0.75),
        *(1, 1, 0),
    ]


def test_dose_rises_with_each_call() -> None:
    assert [Span(2, ramp=2, unit="calls").step(call) for call in (1, 2, 3, 4)] == [0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("span", "calls"),
    [
        (Span(1, 2, unit="calls"), [3]),
        (Span(3, 2, unit="calls"), [3, 5]),
        (Span(2, 0, 3, unit="calls"), [2, 3, 4]),
        (Span(1, unit="calls"), []),
        (Span(2, 3), []),
    ],
)
def test_dose_changes_at_listed_calls(span: Span, calls: list[int]) -> None:
    assert span.changes_before == calls


def test_overlapping_toxics() -> None:
    first = Span(1, 2)
    assert [first.overlaps(Span(start, 1)) for start in (0, 1, 2.9, 3)] == [False, True, True, False]
    assert first.overlaps(Span()) and first.overlaps(Span(9, 1, unit="calls"))
    assert (first.end, Span(5).end) == (3, math.inf)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span(2, 1.5, 0.5), "from 2 s on, for 1.5 s, rising over 0.5 s"),
        (Span(0, 3), "for 3 s"),
        (Span(3, 1, unit="calls"), "from call 3 on, for 1 call"),
        (Span(1, 2, unit="calls"), "for 2 calls"),
        (Span(), ""),
    ],
)
def test_span_text(span: Span, text: str) -> None:
    assert str(span) == text
