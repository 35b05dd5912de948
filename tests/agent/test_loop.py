"""How an attempt ends: by a report, a text, nothing, a limit or an exception."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from agent.loop import Agent, Value
from tests.agent.support import (
    SEND,
    WEATHER,
    Clock,
    Script,
    Wire,
    asks,
    context_in,
    failed,
    http,
    lab_of,
    reports,
    run_agent,
)
from wirefault.core.sockets import Address
from wirefault.history.events import Report, ToolCalled, ToolTry
from wirefault.history.lines import dump_event
from wirefault.subjects.subject import SubjectResult

NOWHERE = lab_of(Address("127.0.0.1", 1))
GOOD = http(200, {"temp": 8})


def test_report_is_mapped() -> None:
    values = [{"value": 8.4, "unit": "celsius"}, {"value": "Bonjour"}, {"value": "8.4", "unit": None}]
    result = run_agent(NOWHERE, reports("unsure", "It is 8.4.", values=values)).result
    assert result == SubjectResult("report", Report("unsure", "It is 8.4.", RECORDED), "It is 8.4.")


RECORDED: list[dict[str, Any]] = [
    {"value": 8.4, "unit": "celsius"},
    {"value": "Bonjour", "unit": None},
    {"value": "8.4", "unit": None},
]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (AIMessage(" Hello. "), SubjectResult("text", response="Hello.")),
        (AIMessage(""), SubjectResult("empty")),
        (AIMessage(" \n"), SubjectResult("empty")),
        (RuntimeError("broken"), SubjectResult("exception", None, "", "RuntimeError", "broken", "agent")),
    ],
)
def test_end_without_report(reply: Any, expected: SubjectResult) -> None:
    assert run_agent(NOWHERE, reply).result == expected


def test_malformed_arguments_end_as_empty_answer() -> None:
    broken = {"name": "get_weather", "args": '{"city": "Pa', "id": "1", "error": "no JSON"}
    assert run_agent(NOWHERE, AIMessage("", invalid_tool_calls=[broken])).result.ended_by == "empty"


def test_invalid_report_can_be_repeated() -> None:
    outcome = run_agent(NOWHERE, reports("perhaps"), reports("failed"))
    assert outcome.result.report is not None
    assert (outcome.result.report.status, len(outcome.model.received)) == ("failed", 2)


def test_calls_next_to_report_are_executed(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    both = asks(SEND, ("Report", {"status": "done", "answer": "Sent."}))
    outcome = run_agent(lab_of(server.address), both)
    assert (len(server.received), outcome.result.ended_by) == (1, "report")


def test_model_sees_only_prompt() -> None:
    [request] = run_agent(NOWHERE, reports()).model.received
    system, prompt = request
    assert isinstance(system, SystemMessage)
    assert prompt == HumanMessage("the prompt", id=prompt.id)


def test_error_hides_secrets() -> None:
    events: list[Any] = []
    model = Script(replies=[RuntimeError("x" * 490 + " sk-secret-key is wrong")])
    agent = Agent(model, "subject", redact=lambda text: text.replace("sk-secret-key", "[secret]"))
    error = agent("the prompt", context_in(NOWHERE, events)).error or ""
    assert len(error) == 500
    assert "sk-" not in error


# limits


def test_model_calls_are_limited(wire: Callable[..., Wire]) -> None:
    outcome = run_agent(lab_of(wire(GOOD).address), asks(WEATHER), model_calls=3)
    assert outcome.result == SubjectResult(
        "limit", error_type="LimitReached", error="3 model calls made (MODEL_CALLS)"
    )
    assert (len(outcome.model.received), len(outcome.of(ToolCalled))) == (3, 3)


def test_tool_calls_are_limited(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    outcome = run_agent(lab_of(server.address), asks(WEATHER), tool_calls=2)
    assert (outcome.result.ended_by, outcome.result.error) == (
        "limit",
        "more than 2 tool calls asked for (TOOL_CALLS)",
    )
    assert len(server.received) == 2


def test_parallel_calls_beyond_limit_are_all_refused(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    outcome = run_agent(lab_of(server.address), asks(SEND), asks(SEND, WEATHER), tool_calls=2)
    assert outcome.result.ended_by == "limit"
    assert len(server.received) == 1


def test_tries_and_report_are_not_tool_calls(wire: Callable[..., Wire]) -> None:
    server = wire(failed(500))
    outcome = run_agent(lab_of(server.address), asks(SEND), reports(), tool_calls=1, tool_limit=4)
    assert (len(server.received), outcome.result.ended_by) == (4, "report")


def test_time_limit_is_checked_before_model_calls(wire: Callable[..., Wire]) -> None:
    clock = Clock()

    def slow() -> AIMessage:
        clock.now += 31
        return asks(WEATHER)

    server = wire(GOOD)
    outcome = run_agent(lab_of(server.address), slow, clock=clock)
    assert (outcome.result.ended_by, outcome.result.error) == ("limit", "30 s have passed (ATTEMPT_TIME)")
    assert server.received == []


def test_model_failure_after_deadline_counts_as_limit() -> None:
    clock = Clock()

    def late() -> Exception:
        clock.now += 31
        return TimeoutError("no answer")

    assert run_agent(NOWHERE, late, clock=clock).result.ended_by == "limit"


def test_default_limits_differ_from_langgraph(wire: Callable[..., Wire]) -> None:
    outcome = run_agent(lab_of(wire(GOOD).address), asks(WEATHER), model_calls=20, tool_calls=1000)
    assert outcome.result.error == "20 model calls made (MODEL_CALLS)"


def test_attempts_do_not_share_their_counts(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    model = Script(replies=[asks(WEATHER), reports(), asks(WEATHER), reports()])
    agent, events = Agent(model, "subject"), list[Any]()
    for attempt in (1, 2):
        context = context_in(lab_of(server.address), events, attempt=attempt, tool_calls=1, model_calls=2)
        assert agent("the prompt", context).ended_by == "report"
    assert [(seen.attempt, seen.call, seen.try_) for seen in events if isinstance(seen, ToolTry)] == [
        (1, 1, 1),
        (2, 1, 1),
    ]


def test_attempt_records_are_json(wire: Callable[..., Wire]) -> None:
    outcome = run_agent(lab_of(wire(failed(422, "\x1b[31mno")).address), asks(SEND), reports())
    [made] = outcome.of(ToolCalled)
    assert json.loads(dump_event(made))["arguments"] == SEND[1]


def test_integer_in_report_stays_integer():
    assert repr(Value.model_validate_json('{"value": 1083, "unit": "ft"}').value) == "1083"
