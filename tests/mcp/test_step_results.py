"""The words of the table."""

from __future__ import annotations

import pytest

from tests.mcp.step_results import in_words

GOOD = [{"step": "weather", "text": "sun"}, {"step": "fine", "text": "fine"}]
FINE = GOOD[1]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (GOOD, "good answer"),
        ([{"step": "weather", "text": "rain"}, FINE], "silent: taken as good"),
        ([{"step": "weather", "error": "no"}, FINE], "tool error"),
        ([{"step": "weather", "code": -32603, "message": ""}, FINE], "error -32603"),
        (
            [{"step": "weather", "code": 408}, {"step": "fine", "code": 408}],
            "its time limit; the next call: its time limit",
        ),
        ([{"step": "weather", "exception": "TypeError"}, FINE], "exception TypeError"),
        ([{"step": "(client)", "exception": "ExceptionGroup"}], "the client dies (ExceptionGroup)"),
        ([], "no word of the client"),
    ],
)
def test_observation_text(results, words):
    assert in_words(results, ["weather", "fine"], GOOD) == words


def test_trace_starts_at_first_failed_step():
    gone = [GOOD[0], {"step": "weather", "code": 1}, FINE]
    assert in_words(gone, ["weather", "weather", "fine"], [GOOD[0], *GOOD]) == "error 1"
