"""The words of the table."""

from __future__ import annotations

import pytest

from tests.mcp.told import in_words

GOOD = [{"step": "weather", "text": "sun"}, {"step": "fine", "text": "fine"}]
FINE = GOOD[1]


@pytest.mark.parametrize(
    ("told", "words"),
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
def test_what_was_told_in_words(told, words):
    assert in_words(told, ["weather", "fine"], GOOD) == words


def test_steps_before_the_first_that_went_wrong_are_not_told():
    gone = [GOOD[0], {"step": "weather", "code": 1}, FINE]
    assert in_words(gone, ["weather", "weather", "fine"], [GOOD[0], *GOOD]) == "error 1"
