"""The numbers of a call, which the plan and the idempotency key hang on."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent.calls import AttemptInProgress, Call, identify
from tests.agent.support import SEND, WEATHER, Wire, asks, context_in, http, lab_of, reports, run_agent
from wirefault.core.identity import identifier
from wirefault.history.events import ToolCalled, ToolTry
from wirefault.wiring.topology import default_topology

OSLO = ("get_weather", {"city": "Oslo"})
BAD = ("get_weather", {"town": "Paris"})
NO_TOOL = ("launch_rocket", {"city": "Paris"})


def _identified(*replies: AIMessage, index: int = 0, **options: Any) -> Call | None:
    """The call at that index of the last reply."""
    attempt = AttemptInProgress(context_in(default_topology("lab-test"), [], **options))
    messages: list[Any] = [HumanMessage("the prompt")]
    for reply in replies:
        messages += [reply, *(ToolMessage("{}", tool_call_id=call["id"]) for call in reply.tool_calls)]
    return identify(attempt, dict(replies[-1].tool_calls[index]), messages)


def _numbers(*replies: AIMessage, index: int = 0) -> tuple[int, int, int]:
    call = _identified(*replies, index=index)
    assert call is not None
    return call.reply, call.index, call.ordinal


def test_calls_are_numbered_by_request_and_order() -> None:
    reply = asks(WEATHER, OSLO, WEATHER)
    assert [_numbers(reply, index=index) for index in range(3)] == [(1, 0, 1), (1, 1, 1), (1, 2, 2)]
    assert _numbers(reply, asks(OSLO, WEATHER), index=1) == (2, 1, 3)


def test_ids_reused_across_replies_still_number_calls() -> None:
    first, again = asks(SEND), asks(SEND)
    assert first.tool_calls[0]["id"] == again.tool_calls[0]["id"]
    assert _numbers(first, again) == (2, 0, 2)


def test_invalid_calls_are_not_counted() -> None:
    assert _numbers(asks(BAD, NO_TOOL, WEATHER), index=2) == (1, 2, 1)


@pytest.mark.parametrize("call", [BAD, NO_TOOL, ("get_weather", {"city": ""}), ("get_weather", {})])
def test_invalid_call_has_no_numbers(call: tuple[str, dict[str, Any]]) -> None:
    assert _identified(asks(call)) is None


def test_key_depends_on_call_identity() -> None:
    call = _identified(asks(WEATHER), asks(WEATHER, SEND), index=1, attempt=3)
    assert call is not None
    assert call.idempotency_key == identifier("key", "run-1", "001", 3, 2, 1)


def test_key_depends_on_attempt_run_and_place() -> None:
    calls = [
        _identified(asks(SEND)),
        _identified(asks(SEND), attempt=2),
        _identified(asks(SEND), run="run-2"),
        _identified(asks(SEND, SEND), index=1),
        _identified(asks(SEND), asks(SEND)),
    ]
    assert len({call.idempotency_key for call in calls if call}) == 5


def test_parallel_calls_keep_model_order(wire: Callable[..., Wire]) -> None:
    server = wire(http(200, {}))
    outcome = run_agent(lab_of(server.address), asks(SEND, SEND, OSLO, SEND, first_id=5), reports())
    by_index = {call.index: call for call in outcome.of(ToolCalled)}
    assert {index: call.call for index, call in by_index.items()} == {0: 1, 1: 2, 2: 1, 3: 3}
    keys = {request.identity.call: request.key for request in server.received if request.key}
    expected = {n: identifier("key", "run-1", "001", 1, 1, i) for n, i in ((1, 0), (2, 1), (3, 3))}
    assert keys == expected
    assert {seen.call: seen.idempotency_key for seen in outcome.of(ToolTry) if seen.write} == expected
