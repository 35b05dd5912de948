"""Retry, fallback and what the model is told, through the real agent over real connections."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.middleware import BACKOFF_S
from tests.agent.support import (
    SEND,
    WEATHER,
    Answer,
    Clock,
    Flown,
    Wire,
    asks,
    failed,
    fly,
    http,
    lab_of,
    reports,
    silence,
)
from wirefault.core.sockets import LOOPBACK, Address, address_of, bind
from wirefault.history.events import ToolCalled, ToolTry

GOOD = http(200, {"sent": True})
LATER = http(429, {}, Retry_After="0.7")
MUCH_LATER = http(429, {}, Retry_After="1.5")


@pytest.fixture
def call(wire: Callable[..., Wire]) -> Callable[..., tuple[Flown, Wire]]:
    """Lets the agent make one call (a message is sent, unless another is given) at such a server."""

    def make(*answers: Answer, asked: Any = SEND, **given: Any) -> tuple[Flown, Wire]:
        server = wire(*answers)
        return fly(lab_of(server.address), asks(asked), reports(), **given), server

    return make


@pytest.fixture
def nobody() -> Iterator[Address]:
    listener = bind(Address(LOOPBACK, 0))
    address = address_of(listener)
    listener.close()
    yield address


def _error(flown: Flown) -> dict[str, Any]:
    [told] = flown.told
    assert told.status == "error"
    error: dict[str, Any] = json.loads(told.text)["error"]
    return error


Call = Callable[..., tuple[Flown, Wire]]


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_failed_call_is_tried_up_to_the_limit(limit: int, call: Call) -> None:
    flown, server = call(failed(503), tool_limit=limit)
    assert [asked.identity.try_ for asked in server.asked] == list(range(1, limit + 1))
    assert [seen.try_ for seen in flown.of(ToolTry)] == list(range(1, limit + 1))
    assert flown.slept == [BACKOFF_S] * (limit - 1)
    [made] = flown.of(ToolCalled)
    assert (made.tries, made.ok, made.error, made.call) == (limit, False, "http_503", 1)
    assert flown.result.ended_by == "report"


def test_a_try_that_succeeds_is_the_last(call: Call) -> None:
    flown, server = call(failed(500), GOOD, tool_limit=5)
    [made], [told] = flown.of(ToolCalled), flown.told
    assert (len(server.asked), made.tries, made.ok, made.side_effect) == (2, 2, True, "done")
    assert (told.status, told.content) == ("success", '{"sent":true}')


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 422])
def test_what_was_refused_is_not_tried_again(status: int, call: Call) -> None:
    flown, server = call(failed(status, "no such person"), tool_limit=5, fallback="direct")
    assert len(server.asked) == 1
    assert _error(flown) == {
        "code": "refused",
        "message": "The tool refused the request. no such person",
        "side_effect": "none",
    }


@pytest.mark.parametrize(
    ("answer", "given", "slept"),
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
    answer: Answer, given: dict[str, Any], slept: list[float], call: Call
) -> None:
    flown, server = call(answer, GOOD, tool_limit=2, **given)
    assert flown.slept == slept
    assert len(server.asked) == 1 + len(slept)


def test_all_tries_and_the_fallback_share_one_key(wire: Callable[..., Wire]) -> None:
    proxy, service = wire(failed(500)), wire(GOOD)
    topology = lab_of(proxy.address, service.address)
    flown = fly(topology, asks(SEND), reports(), tool_limit=3, fallback="direct")
    tries, [made] = flown.of(ToolTry), flown.of(ToolCalled)
    asked = [*proxy.asked, *service.asked]
    assert len({request.key for request in asked} | {seen.idempotency_key for seen in tries}) == 1
    assert [(seen.try_, seen.route) for seen in tries] == [
        (1, "proxy"),
        (2, "proxy"),
        (3, "proxy"),
        (4, "direct"),
    ]
    assert [request.identity.try_ for request in asked] == [1, 2, 3, 4]
    assert (made.ok, made.fallback_used, made.tries, made.side_effect) == (True, True, 4, "done")
    assert service.asked[0].headers["wirefault-world"] == "run-1/001"
    assert flown.told[0].content == '{"sent":true}'


def test_without_fallback_the_service_is_left_alone(wire: Callable[..., Wire]) -> None:
    proxy, service = wire(failed(500)), wire(GOOD)
    flown = fly(lab_of(proxy.address, service.address), asks(SEND), reports())
    assert service.asked == []
    assert not flown.of(ToolCalled)[0].fallback_used


def test_a_fallback_that_fails_too_is_told_as_it_is(wire: Callable[..., Wire], nobody: Address) -> None:
    topology = lab_of(wire(failed(500)).address, nobody)
    flown = fly(topology, asks(WEATHER), reports(), fallback="direct")
    [made] = flown.of(ToolCalled)
    assert (made.ok, made.fallback_used, made.error, made.tries) == (False, True, "connection_refused", 2)
    assert _error(flown)["side_effect"] == "none"


def test_without_idempotency_no_try_has_a_key(call: Call) -> None:
    flown, server = call(failed(500), tool_limit=2, idempotency=False)
    assert [asked.key for asked in server.asked] == [None, None]
    assert [seen.idempotency_key for seen in flown.of(ToolTry)] == [None, None]


def test_a_call_that_the_model_repeats_has_a_key_of_its_own(wire: Callable[..., Wire]) -> None:
    server = wire(failed(500))
    fly(lab_of(server.address), asks(SEND), asks(SEND), reports(), tool_limit=2)
    fly(lab_of(server.address), asks(SEND), reports(), attempt=2)
    first, again, second, *_, last = [asked.key for asked in server.asked]
    assert first == again
    assert len({first, second, last}) == 3
    assert [asked.identity.call for asked in server.asked] == [1, 1, 2, 2, 1]


# what the model is told


@pytest.mark.parametrize("asked", [SEND, WEATHER], ids=["write", "read"])
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
def test_an_error_says_what_happened_and_whether_the_side_effect_is_unknown(
    answer: Answer, code: str, unknown: bool, asked: Any, call: Call
) -> None:
    flown, _ = call(answer, asked=asked, tool_timeout=0.1 if answer is silence else 10)
    error, [made] = _error(flown), flown.of(ToolCalled)
    assert error["code"] == code
    assert error["side_effect"] == made.side_effect == ("unknown" if unknown and asked == SEND else "none")
    assert ("unknown" in error["message"]) is (error["side_effect"] == "unknown")
    assert made.result == flown.told[0].content


def test_a_service_that_cannot_be_reached_has_done_nothing(nobody: Address) -> None:
    flown = fly(lab_of(nobody), asks(SEND), reports(), tool_limit=2)
    assert _error(flown) == {
        "code": "not_reached",
        "message": "The tool could not be reached.",
        "side_effect": "none",
    }


@pytest.mark.parametrize("last", [failed(429), failed(422, "no")])
def test_an_earlier_try_may_have_taken_effect_whatever_the_last_one_says(last: Answer, call: Call) -> None:
    flown, _ = call(failed(500), last, tool_limit=2)
    error, [made] = _error(flown), flown.of(ToolCalled)
    assert error["side_effect"] == made.side_effect == "unknown"
    assert error["message"].endswith("Whether an earlier try took effect is unknown.")


def test_so_it_may_when_the_fallback_is_not_reached(wire: Callable[..., Wire], nobody: Address) -> None:
    topology = lab_of(wire(b"").address, nobody)
    flown = fly(topology, asks(SEND), reports(), fallback="direct")
    assert (_error(flown)["code"], _error(flown)["side_effect"]) == ("not_reached", "unknown")


@pytest.mark.parametrize("answer", [silence, b"", LATER, http(200, b""), failed(500), failed(503)])
def test_the_text_of_an_error_repeats_and_has_no_figures(answer: Answer, call: Call) -> None:
    texts = {
        call(answer, tool_timeout=timeout, run=run)[0].told[0].text
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
def test_a_wrong_call_kills_nothing_and_takes_no_number(wrong: Any, wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    flown = fly(lab_of(server.address), asks(wrong, WEATHER), asks(wrong), asks(WEATHER), reports())
    assert flown.result.ended_by == "report"
    assert [asked.identity.call for asked in server.asked] == [1, 2]
    wrong_ones = [told for told in flown.told if told.status == "error"]
    assert len(wrong_ones) == 2
    assert "rror" in wrong_ones[0].text


def test_no_failure_ends_the_run(call: Call) -> None:
    flown, _ = call(http(200, b"[" * 100_000))
    assert flown.result.ended_by == "report"


def test_a_retry_that_would_end_after_the_attempt_is_not_made(call: Call) -> None:
    clock = Clock()
    flown, server = call(failed(500), tool_limit=3, attempt_time=BACKOFF_S * 1.5, clock=clock)
    assert (len(server.asked), clock.slept) == (2, [BACKOFF_S])
    assert flown.result.ended_by == "report"
