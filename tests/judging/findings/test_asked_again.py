"""The same call asked n times again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging.findings.traced import asked, asked_model, observed
from tests.judging.oracle.histories import called, exchange, tried
from wirefault.judging.findings.retries import ASKED_AGAIN


def calls(*results, **more):
    """Calls of the lab's agent, None for one that failed."""
    return [
        called(result or "", ok=result is not None, call=call, reply=call, **more)
        for call, result in enumerate(results, start=1)
    ]


def wire(*bodies, model=True, **more):
    """The same GET with these answers, a model's request before each."""
    events = []
    for place, body in enumerate(bodies):
        events += [asked_model(place, f"[{place}]")] if model else []
        status = 200 if body else 500
        events.append(asked(place + 0.5, method="GET", status=status, reply_body=body, call=place, **more))
    return events


def test_calls_with_the_same_answer_are_counted():
    assert observed(ASKED_AGAIN, *calls("8.4", "8.4", "8.4")) == [
        "get was called again twice, with the same answer each time"
    ]


def test_calls_that_always_fail_are_counted():
    assert observed(ASKED_AGAIN, *calls(None, None, None, None)) == [
        "get was called again 3 times, and failed each time"
    ]


def test_of_an_opaque_subject_the_wire_tells():
    assert observed(ASKED_AGAIN, *wire("a", "a", "a")) == [
        "GET /orders was called again twice, with the same answer each time"
    ]


def test_a_write_on_the_link_may_have_changed_the_answer():
    write = [
        tried("weather", fingerprint="w", write=True, start=104.0),
        exchange("weather", fingerprint="w", start=104.0, method="POST"),
    ]
    again = [replace(call, t=103.0 + place) for place, call in enumerate(calls("a", "a", "a"))]
    assert len(observed(ASKED_AGAIN, *again)) == 1
    assert observed(ASKED_AGAIN, *again, *write) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(calls("8.4", "8.4"), id="once more"),
        pytest.param(calls("8.4", "8.5", "8.5"), id="another answer"),
        pytest.param(calls(None, None, "8.4"), id="answered in the end"),
        pytest.param(calls(None, None, None), id="failed three times"),
        pytest.param(wire("a", "a", "a", model=False), id="the tool polls"),
        pytest.param(wire("pending", "pending", "done"), id="polled to its end"),
        pytest.param(wire(None, None, None), id="retries"),
    ],
)
def test_near_misses_are_passed_over(events):
    assert observed(ASKED_AGAIN, *events) == []
