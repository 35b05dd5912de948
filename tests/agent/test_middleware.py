"""Retry, fallback and tool results for the model, through the real agent over real connections."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.middleware import BACKOFF_S
from tests.agent.support import (
    SEND,
    WEATHER,
    Answer,
    AttemptRun,
    Clock,
    Wire,
    asks,
    failed,
    http,
    lab_of,
    reports,
    run_agent,
    silence,
)
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.history.events import ToolCalled, ToolTry

GOOD = http(200, {"sent": True})
LATER = http(429, {}, Retry_After="0.7")
MUCH_LATER = http(429, {}, Retry_After="1.5")


@pytest.fixture
def call(wire: Callable[..., Wire]) -> Callable[..., tuple[AttemptRun, Wire]]:
    """Lets the agent make one call (a message is sent, unless another is passed) at such a server."""

    def make(*answers: Answer, tool_call: Any = SEND, **options: Any) -> tuple[AttemptRun, Wire]:
        server = wire(*answers)
        return run_agent(lab_of(server.address), asks(tool_call), reports(), **options), server

    return make


@pytest.fixture
def nobody() -> Iterator[Address]:
    listener = bind(Address(LOOPBACK, 0))
    address = bound_address(listener)
    listener.close()
    yield address


def _error(outcome: AttemptRun) -> dict[str, Any]:
    [message] = outcome.tool_results
    assert message.status == "error"
    error: dict[str, Any] = json.loads(message.text)["error"]
    return error


Call = Callable[..., tuple[AttemptRun, Wire]]


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_failed_call_is_retried_up_to_limit(limit: int, call: Call) -> None:
    outcome, server = call(failed(503), tool_limit=limit)
    assert [request.identity.try_ for request in server.received] == list(range(1, limit + 1))
    assert [seen.try_ for seen in outcome.of(ToolTry)] == list(range(1, limit + 1))
    assert outcome.slept == [BACKOFF_S] * (limit - 1)
    [made] = outcome.of(ToolCalled)
    assert (made.tries, made.ok, made.error, made.call) == (limit, False, "http_503", 1)
    assert outcome.result.ended_by == "report"


def test_success_ends_retries(call: Call) -> None:
    outcome, server = call(failed(500), GOOD, tool_limit=5)
    [made], [message] = outcome.of(ToolCalled), outcome.tool_results
    assert (len(server.received), made.tries, made.ok, made.side_effect) == (2, 2, True, "done")
    assert (message.status, message.content) == ("success", '{"sent":true}')


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 422])
def test_refused_call_is_not_retried(status: int, call: Call) -> None:
    outcome, server = call(failed(status, "no such person"), tool_limit=5, fallback="direct")
    assert len(server.received) == 1
    assert _error(outcome) == {
        "code": "refused",
        "message": "The tool refused the request. no such person",
        "side_effect": "none",
    }


@pytest.mark.parametrize(
    ("answer", "options", "slept"),
    [
        (LATER, {}, [0.7]),
        (http(503, {}, Retry_After="0.3"), {}, [0.3]),
        (http(429, {}, Retry_After="1"), {}, [1.0]),
        (http(429, {}, Retry_After="soon"), {}, [BACKOFF_S]),
        (MUCH_LATER, {}, []),
        (MUCH_LATER, {"retry_after_max": 2}, [1.5]),
        (LATER, {"attempt_time": 0.6}, []),
    ],
)
def test_retry_after_is_honoured_within_bounds(
    answer: Answer, options: dict[str, Any], slept: list[float], call: Call
) -> None:
    outcome, server = call(answer, GOOD, tool_limit=2, **options)
    assert outcome.slept == slept
    assert len(server.received) == 1 + len(slept)


def test_all_tries_and_fallback_share_one_key(wire: Callable[..., Wire]) -> None:
    proxy, service = wire(failed(500)), wire(GOOD)
    topology = lab_of(proxy.address, service.address)
    outcome = run_agent(topology, asks(SEND), reports(), tool_limit=3, fallback="direct")
    tries, [made] = outcome.of(ToolTry), outcome.of(ToolCalled)
    requests = [*proxy.received, *service.received]
    assert len({request.key for request in requests} | {seen.idempotency_key for seen in tries}) == 1
    assert [(seen.try_, seen.route) for seen in tries] == [
        (1, "proxy"),
        (2, "proxy"),
        (3, "proxy"),
        (4, "direct"),
    ]
    assert [request.identity.try_ for request in requests] == [1, 2, 3, 4]
    assert (made.ok, made.fallback_used, made.tries, made.side_effect) == (True, True, 4, "done")
    assert service.received[0].headers["wirefault-world"] == "run-1/001"
    assert outcome.tool_results[0].content == '{"sent":true}'


def test_fallback_is_off_by_default(wire: Callable[..., Wire]) -> None:
    proxy, service = wire(failed(500)), wire(GOOD)
    outcome = run_agent(lab_of(proxy.address, service.address), asks(SEND), reports())
    assert service.received == []
    assert not outcome.of(ToolCalled)[0].fallback_used


def test_failed_fallback_is_reported(wire: Callable[..., Wire], nobody: Address) -> None:
    topology = lab_of(wire(failed(500)).address, nobody)
    outcome = run_agent(topology, asks(WEATHER), reports(), fallback="direct")
    [made] = outcome.of(ToolCalled)
    assert (made.ok, made.fallback_used, made.error, made.tries) == (False, True, "connection_refused", 2)
    assert _error(outcome)["side_effect"] == "none"


def test_without_idempotency_no_try_has_key(call: Call) -> None:
    outcome, server = call(failed(500), tool_limit=2, idempotency=False)
    assert [request.key for request in server.received] == [None, None]
    assert [seen.idempotency_key for seen in outcome.of(ToolTry)] == [None, None]


def test_repeated_call_has_new_key(wire: Callable[..., Wire]) -> None:
    server = wire(failed(500))
    run_agent(lab_of(server.address), asks(SEND), asks(SEND), reports(), tool_limit=2)
    run_agent(lab_of(server.address), asks(SEND), reports(), attempt=2)
    first, again, second, *_, last = [request.key for request in server.received]
    assert first == again
    assert len({first, second, last}) == 3
    assert [request.identity.call for request in server.received] == [1, 1, 2, 2, 1]


# tool results for the model


@pytest.mark.parametrize("tool_call", [SEND, WEATHER], ids=["write", "read"])
@pytest.mark.parametrize(
    ("answer", "code", "unknown"),
    [
        (silence, "timeout", True),
        (b"", "connection_lost", True),
        (http(200, b"<html>"), "bad_reply", True),
        (failed(500), "service_failed", True),
        (failed(503), "service_failed", True),
        (failed(429), "rate_limited", False),
        (failed(404), "refused", False),
    ],
)
def test_error_has_cause_and_side_effect(
    answer: Answer, code: str, unknown: bool, tool_call: Any, call: Call
) -> None:
    outcome, _ = call(answer, tool_call=tool_call, tool_timeout=0.1 if answer is silence else 10)
    error, [made] = _error(outcome), outcome.of(ToolCalled)
    assert error["code"] == code
    assert (
        error["side_effect"] == made.side_effect == ("unknown" if unknown and tool_call == SEND else "none")
    )
    assert ("unknown" in error["message"]) is (error["side_effect"] == "unknown")
    assert made.result == outcome.tool_results[0].content


def test_unreachable_service_has_no_side_effect(nobody: Address) -> None:
    outcome = run_agent(lab_of(nobody), asks(SEND), reports(), tool_limit=2)
    assert _error(outcome) == {
        "code": "not_reached",
        "message": "The tool could not be reached.",
        "side_effect": "none",
    }


@pytest.mark.parametrize("last", [failed(429), failed(422, "no")])
def test_earlier_try_makes_side_effect_unknown(last: Answer, call: Call) -> None:
    outcome, _ = call(failed(500), last, tool_limit=2)
    error, [made] = _error(outcome), outcome.of(ToolCalled)
    assert error["side_effect"] == made.side_effect == "unknown"
    assert error["message"].endswith("Whether an earlier try took effect is unknown.")


def test_unreachable_fallback_leaves_side_effect_unknown(wire: Callable[..., Wire], nobody: Address) -> None:
    topology = lab_of(wire(b"").address, nobody)
    outcome = run_agent(topology, asks(SEND), reports(), fallback="direct")
    assert (_error(outcome)["code"], _error(outcome)["side_effect"]) == ("not_reached", "unknown")


@pytest.mark.parametrize("answer", [silence, b"", LATER, http(200, b""), failed(500), failed(503)])
def test_error_text_is_deterministic_without_figures(answer: Answer, call: Call) -> None:
    texts = {
        call(answer, tool_timeout=timeout, run=run)[0].tool_results[0].text
        for timeout, run in ((0.1, "a"), (0.2, "b"))
    }
    [text] = texts
    assert not any(character.isdigit() for character in text)


@pytest.mark.parametrize(
    "wrong",
    [
        ("get_weather", {"town": "Paris"}),
        ("get_weather", {"city": ""}),
        ("launch_rocket", {}),
        ("send_message", {}),
    ],
)
def test_invalid_call_is_answered_and_not_numbered(wrong: Any, wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    outcome = run_agent(lab_of(server.address), asks(wrong, WEATHER), asks(wrong), asks(WEATHER), reports())
    assert outcome.result.ended_by == "report"
    assert [request.identity.call for request in server.received] == [1, 2]
    wrong_ones = [message for message in outcome.tool_results if message.status == "error"]
    assert len(wrong_ones) == 2
    assert "rror" in wrong_ones[0].text


def test_failures_do_not_end_run(call: Call) -> None:
    outcome, _ = call(http(200, b"[" * 100_000))
    assert outcome.result.ended_by == "report"


def test_no_retry_beyond_attempt_deadline(call: Call) -> None:
    clock = Clock()
    outcome, server = call(failed(500), tool_limit=3, attempt_time=BACKOFF_S * 1.5, clock=clock)
    assert (len(server.received), clock.slept) == (2, [BACKOFF_S])
    assert outcome.result.ended_by == "report"
