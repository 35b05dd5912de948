"""Figures of kills of the subject, from synthetic histories."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import LINKS, lost, model_request, request
from tests.judging.oracle.histories import EPISODE, ended, fault_met, run_started, started
from tests.support import replace
from wirefault.history.events import Event, SubjectKilled
from wirefault.judging.kills import KillFigures, KillPoint, kill_points
from wirefault.judging.trace import traces

PLAN = '{"messages": ["plan"]}'
KILL = {"status": None, "fault": fault_met("kill_subject", id="crash")}


def killed(at: float, point: str = "before_reply", number: int = 1, link: str = "shop") -> SubjectKilled:
    return SubjectKilled(100.0 + at, EPISODE, 1, number, link, "crash", point, "kill", True, 2.0)


def order(at: float, **more: object) -> Event:
    return request(at, write=True, status=201, fingerprint="order", **more)


def cut_order(at: float) -> Event:
    """An order that was executed, and whose reply the killed subject did not get."""
    crash = fault_met("kill_subject", id="crash", evidence={"upstream_status": 201, "lost_bytes": 20})
    return lost(at, write=True, fingerprint="order", forwarded=True, **KILL | {"fault": crash})


def points(*events: Event) -> list[KillPoint]:
    history = [replace(run_started(1), links=list(LINKS)), started(), *events]
    return kill_points(traces(history))


def figures(*events: Event) -> list[KillFigures]:
    return [kill for point in points(*events) for kill in point.kills]


def test_subject_that_starts_anew() -> None:
    before = [model_request(0, PLAN, tokens_in=10, tokens_out=5), cut_order(0.1)]
    after = [model_request(1, PLAN, tokens_in=10, tokens_out=5), order(1.5), model_request(2, "{}")]
    assert figures(*before, killed(0.5), *after, ended()) == [
        KillFigures(
            *(EPISODE, 1, 1, "shop", "before_reply"),
            lost=["POST /orders of shop: executed, lost before its reply arrived"],
            repeated=2,
            repeated_writes=1,
            recovered=True,
            seconds=1.01,
            tokens=15,
        )
    ]


def test_subject_that_looks_before_it_repeats() -> None:
    look = request(1, method="GET", fingerprint="list")
    [kill] = figures(request(0, method="GET", fingerprint="menu"), cut_order(0.1), killed(0.5), look)
    assert (kill.repeated, kill.recovered, kill.seconds, kill.tokens) == (0, True, 0.51, None)


def test_delivered_reply_is_not_lost() -> None:
    """The repetition of a request that had its reply is not the way forward; the next request is."""
    crash = fault_met("kill_subject", id="crash", evidence={"upstream_status": 201})
    after = [order(1, forwarded=True), model_request(2, "{}")]
    delivered = order(0.1, fault=crash, forwarded=True)
    [kill] = figures(delivered, killed(0.5, "after_reply"), *after)
    assert (kill.lost, kill.repeated, kill.repeated_writes, kill.seconds) == ([], 1, 1, 1.51)


@pytest.mark.parametrize(
    ("point", "fault", "loss"),
    [
        ("before_request", {}, "POST /v1/chat/completions of model: not executed"),
        (
            "mid_stream",
            {"events": 3},
            "POST /v1/chat/completions of model: lost after 3 events of its stream",
        ),
    ],
)
def test_lost_request_of_model(point: str, fault: dict[str, int], loss: str) -> None:
    crash = fault_met("kill_subject", id="crash", evidence=fault)
    is_forwarded = point != "before_request"
    [kill] = figures(
        model_request(0, PLAN, fault=crash, forwarded=is_forwarded, complete=(True, False)),
        killed(0.5, point, link="model"),
        model_request(1, PLAN, tokens_in=7),
    )
    assert (kill.lost, kill.seconds, kill.tokens) == ([loss], 0.51, 7)


def test_answer_at_end_is_recovery_and_crash_is_not() -> None:
    assert figures(cut_order(0.1), killed(0.5), ended())[0].seconds == 7.5
    crashed = replace(ended(ended_by="exception"), error_type="ExitCode")
    [kill] = figures(cut_order(0.1), killed(0.5), crashed)
    assert (kill.recovered, kill.seconds, kill.tokens) == (False, None, None)


def test_interrupted_request_that_never_succeeds() -> None:
    failed = request(1, status=500, fingerprint="order", write=True)
    [kill] = figures(cut_order(0.1), killed(0.5), failed, ended())
    assert (kill.repeated, kill.repeated_writes, kill.recovered) == (1, 1, False)


def test_several_kills_of_one_attempt() -> None:
    first, second = figures(
        *(cut_order(0.1), killed(0.5)),
        *(cut_order(1.1), killed(1.5, number=2)),
        *(order(2.1), ended()),
    )
    assert [(kill.number, kill.repeated, kill.seconds) for kill in (first, second)] == [
        (1, 1, 1.61),
        (2, 1, 0.61),
    ]


def test_points_are_summed_up_in_words() -> None:
    before = [model_request(0, PLAN), cut_order(0.1), killed(0.5)]
    [point] = points(*before, model_request(1, PLAN, tokens_in=15), order(1.5), ended())
    assert point.text == (
        "1 at shop, before_reply: 1 reply lost, 2 calls repeated (executed writes: 1),"
        " 1 recovered, median 1.01 s and 15 tokens"
    )
    assert points(order(0.1), ended()) == []
