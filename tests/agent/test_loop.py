"""How an attempt ends: by a report, a text, nothing, a limit or an exception."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from agent.loop import Agent
from tests.agent.support import (
    SEND,
    WEATHER,
    Clock,
    Script,
    Wire,
    asks,
    context_in,
    failed,
    fly,
    http,
    lab_of,
    reports,
)
from wirefault.core.sockets import Address
from wirefault.history.events import Report, ToolCalled, ToolTry
from wirefault.subjects.subject import SubjectResult

NOWHERE = lab_of(Address("127.0.0.1", 1))
GOOD = http(200, {"temp": 8})


def test_a_report_is_mapped() -> None:
    values = [{"value": 8.4, "unit": "celsius"}, {"value": "Bonjour"}, {"value": "8.4", "unit": None}]
    result = fly(NOWHERE, reports("unsure", "It is 8.4.", values=values)).result
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
def test_an_end_without_a_report(reply: Any, expected: SubjectResult) -> None:
    assert fly(NOWHERE, reply).result == expected


def test_arguments_that_were_no_json_end_as_an_empty_answer() -> None:
    broken = {"name": "get_weather", "args": '{"city": "Pa', "id": "1", "error": "no JSON"}
    assert fly(NOWHERE, AIMessage("", invalid_tool_calls=[broken])).result.ended_by == "empty"


def test_a_report_that_is_none_can_be_made_again() -> None:
    flown = fly(NOWHERE, reports("perhaps"), reports("failed"))
    assert flown.result.report is not None
    assert (flown.result.report.status, len(flown.model.asked)) == ("failed", 2)


def test_calls_beside_a_report_are_still_made(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    both = asks(SEND, ("Report", {"status": "done", "answer": "Sent."}))
    flown = fly(lab_of(server.address), both)
    assert (len(server.asked), flown.result.ended_by) == (1, "report")


def test_the_prompt_is_all_that_the_model_learns_of_the_task() -> None:
    [asked] = fly(NOWHERE, reports()).model.asked
    system, prompt = asked
    assert isinstance(system, SystemMessage)
    assert prompt == HumanMessage("the prompt", id=prompt.id)


def test_an_error_shows_no_secret() -> None:
    events: list[Any] = []
    model = Script(replies=[RuntimeError("x" * 490 + " sk-secret-key is wrong")])
    agent = Agent(model, "subject", redact=lambda text: text.replace("sk-secret-key", "[secret]"))
    error = agent("the prompt", context_in(NOWHERE, events)).error or ""
    assert len(error) == 500
    assert "sk-" not in error


# limits


def test_the_model_calls_are_limited(wire: Callable[..., Wire]) -> None:
    flown = fly(lab_of(wire(GOOD).address), asks(WEATHER), model_calls=3)
    assert flown.result == SubjectResult(
        "limit", error_type="LimitReached", error="3 model calls made (MODEL_CALLS)"
    )
    assert (len(flown.model.asked), len(flown.of(ToolCalled))) == (3, 3)


def test_the_tool_calls_are_limited(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    flown = fly(lab_of(server.address), asks(WEATHER), tool_calls=2)
    assert (flown.result.ended_by, flown.result.error) == (
        "limit",
        "more than 2 tool calls asked for (TOOL_CALLS)",
    )
    assert len(server.asked) == 2


def test_of_parallel_calls_beyond_the_limit_chance_chooses_none(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)
    flown = fly(lab_of(server.address), asks(SEND), asks(SEND, WEATHER), tool_calls=2)
    assert flown.result.ended_by == "limit"
    assert len(server.asked) == 1


def test_tries_and_the_report_do_not_count_as_tool_calls(wire: Callable[..., Wire]) -> None:
    server = wire(failed(500))
    flown = fly(lab_of(server.address), asks(SEND), reports(), tool_calls=1, tool_limit=4)
    assert (len(server.asked), flown.result.ended_by) == (4, "report")


def test_the_time_is_limited_before_a_model_call(wire: Callable[..., Wire]) -> None:
    clock = Clock()

    def slow() -> AIMessage:
        clock.now += 31
        return asks(WEATHER)

    server = wire(GOOD)
    flown = fly(lab_of(server.address), slow, clock=clock)
    assert (flown.result.ended_by, flown.result.error) == ("limit", "30 s have passed (ATTEMPT_TIME)")
    assert server.asked == []


def test_a_model_that_fails_when_the_time_is_over_was_ended_by_the_time() -> None:
    clock = Clock()

    def late() -> Exception:
        clock.now += 31
        return TimeoutError("no answer")

    assert fly(NOWHERE, late, clock=clock).result.ended_by == "limit"


def test_the_default_limits_are_not_those_of_the_graph(wire: Callable[..., Wire]) -> None:
    flown = fly(lab_of(wire(GOOD).address), asks(WEATHER), model_calls=20, tool_calls=1000)
    assert flown.result.error == "20 model calls made (MODEL_CALLS)"


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


def test_the_records_of_an_attempt_can_be_written_as_json(wire: Callable[..., Wire]) -> None:
    flown = fly(lab_of(wire(failed(422, "\x1b[31mno")).address), asks(SEND), reports())
    [made] = flown.of(ToolCalled)
    assert json.loads(json.dumps(made.__dict__))["arguments"] == SEND[1]
