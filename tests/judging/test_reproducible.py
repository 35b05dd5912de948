"""Parallel requests, whose order is chance."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import called, episode, exchange, fault_met
from tests.judging.test_summary import armed_set, run
from wirefault.history.events import Event, Exchange, FaultMet, LateRequest
from wirefault.judging.reproducible import CallsAtOnce
from wirefault.judging.summary import summarise

LATER = 103.5
SPARED = fault_met(injected=False, why_not="outside_radius")


def request(number: int, fault: FaultMet | None = None, **more: object) -> Exchange:
    """One of several with different questions."""
    return exchange("weather", fault=fault, fingerprint=f"f{number}", **more)


def of_reply(*replies: int) -> list[Event]:
    """The subject's record of these requests, the model's reply to each that asked for it."""
    return [called(fingerprint=f"f{number}", reply=reply) for number, reply in enumerate(replies, start=1)]


def reasons(*events: Event, **settings: object) -> list[str]:
    return summarise(run(episode(*events, expect={}), **settings)).not_reproducible_because


def test_calls_of_one_reply_are_parallel() -> None:
    first, second = request(1), request(2, start=LATER)
    assert CallsAtOnce(of_reply(1, 1)).among([first, second]) == [first, second]
    assert CallsAtOnce(of_reply(1, 2)).among([first, second]) == []
    assert CallsAtOnce([]).among([first, second]) == []
    assert CallsAtOnce(of_reply(1)).among([first, request(1, start=LATER, try_=2)]) == []


def test_overlapping_requests_are_parallel() -> None:
    long, within, after = request(1, ms=400.0), request(2, start=103.1), request(3, start=LATER)
    assert CallsAtOnce([]).among([after, within, long]) == [long, within]


def test_count_of_parallel_calls_depends_on_order() -> None:
    calls = [request(1), request(2, start=LATER)]
    assert reasons(*calls, *of_reply(1, 1), **armed_set(links="weather", nth=2)) == [
        "truncate counts calls, and some to weather were made at once"
    ]
    assert reasons(*calls, *of_reply(1, 2), **armed_set(links="weather", nth=2)) == []


@pytest.mark.parametrize(("replies", "by_order"), [((1, 1), True), ((1, 2), False)])
def test_blast_radius_of_parallel_calls_depends_on_order(replies: tuple[int, int], by_order: bool) -> None:
    text = reasons(request(1, fault_met()), request(2, SPARED, start=LATER), *of_reply(*replies))
    because = "one of several concurrent calls used up the blast radius: the order decides which one"
    assert text == ([because] if by_order else [])


def test_late_request_depends_on_time() -> None:
    late = LateRequest(103.0, "1-1", 1, "message", "2-1", 1, wrote=False)
    assert reasons(late) == ["1 request of an earlier attempt came late and met a later attempt's faults"]


def test_episode_outside_radius_does_not_depend_on_order() -> None:
    assert reasons(request(1, SPARED), request(2, SPARED), *of_reply(1, 1)) == []


@pytest.mark.parametrize(
    ("budget", "by_order"), [("episode.calls", True), ("episode.tokens", False), ("episode.cost", False)]
)
def test_budget_on_parallel_requests_depends_on_order(budget: str, by_order: bool) -> None:
    refused = fault_met("quota", id=f"budget:{budget}")
    text = reasons(request(1), request(2, refused, start=LATER), *of_reply(1, 1))
    because = f"the budget {budget} acted on one of several concurrent requests: the order decides which one"
    assert text == ([because] if by_order else [])
    assert reasons(request(1), request(2, refused, start=LATER), *of_reply(1, 2)) == []


@pytest.mark.parametrize(
    ("budget", "because"),
    [
        ("run.tokens", "slowed requests: the order of the episodes decides which one is affected"),
        ("run.time", "depends on the clock, and slowed requests"),
    ],
)
def test_run_budget_that_slows_requests_depends_on_order(budget: str, because: str) -> None:
    slowed = fault_met("delay", id=f"budget:{budget}", delay_ms=10.0)
    [reason] = reasons(request(1, slowed))
    assert reason.startswith(f"the budget {budget}") and reason.endswith(because)
