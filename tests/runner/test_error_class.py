"""Where an attempt's failures lie, by the failures that it met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.judging.oracle.histories import ended, episode, exchange, model_call, tried
from wirefault.judging.trace import episode_trace
from wirefault.runner.record import attempt_error_class

LATE = tried(error="read_timeout", ms=1000)
REFUSED = tried(error="connection_refused", call=2, start=104)
BROKEN = tried(error="http_503", status=503, call=3, start=105)
GOOD = tried(call=4, start=106, fingerprint="f2")
LEFT = exchange("shop", status=None, complete=(True, False), client_left=True)
FAILED, DONE = ended("failed"), ended("done")
CRASHED = replace(ended(ended_by="exception"), error_type="KeyError", error_class="agent")
PROSE = ended(ended_by="text", response="I could not reach the shop.")


def class_of(*events: Any) -> str:
    *others, end = events
    return attempt_error_class(episode_trace(episode(*others, end)), end)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([LATE, FAILED], "network"),
        ([LATE, REFUSED, FAILED], "network"),
        ([LATE, CRASHED], "network"),
        ([LATE, PROSE], "network"),
        ([LEFT, PROSE], "network"),
        ([LEFT, CRASHED], "network"),
        ([model_call(), LATE, FAILED], "network"),  # the model answered, no tool did
        ([model_call(error="ReadTimeout", status=None), FAILED], "network"),
        # some tries succeeded
        ([LATE, GOOD, FAILED], "network"),  # and one call never did
        ([LATE, GOOD, CRASHED], "agent"),
        ([LATE, replace(GOOD, fingerprint="f1"), FAILED], "none"),
        ([LATE, GOOD, DONE], "none"),
        ([BROKEN, FAILED], "server"),
        ([LATE, BROKEN, FAILED], "server"),
        ([LATE, BROKEN, CRASHED], "agent"),
        ([FAILED], "none"),
        ([CRASHED], "agent"),
        ([LATE, replace(CRASHED, error_class="none")], "none"),  # the lab failed
    ],
)
def test_class_by_failures(events: list[Any], expected: str) -> None:
    assert class_of(*events) == expected
