"""Conversations of the lab's agent: its memory, its calls' numbers and its limits over all turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from agent.loop import Agent
from tests.agent.support import SEND, WEATHER, Clock, Script, Wire, asks, context_in, http, lab_of, reports
from tests.support import replace
from wirefault.history.events import Event, Report, ToolCalled
from wirefault.subjects.subject import SubjectResult
from wirefault.wiring.topology import Topology

GOOD = http(200, {"temp": 8})


def converse(
    topology: Topology, turns: tuple[str, ...], *replies: Any, **options: Any
) -> tuple[SubjectResult, Script, list[Event], list[int]]:
    clock, model, events, begun = Clock(), Script(replies=list(replies)), list[Event](), list[int]()
    context = context_in(topology, events, **options)
    context = replace(context, turns=turns, begin_turn=lambda number, _text: begun.append(number))
    result = Agent(model, "subject", sleep=clock.sleep, clock=clock)(turns[0], context)
    return result, model, events, begun


def test_agent_remembers_earlier_turns_and_goes_on_counting(wire: Callable[..., Wire]) -> None:
    first = [asks(WEATHER), reports("done", "It is 8.")]
    second = [asks(WEATHER, SEND), reports("unsure", "I sent it.")]
    turns = ("How warm is it?", "Send it to Bob.")
    result, model, events, begun = converse(lab_of(wire(GOOD).address), turns, *first, *second)
    assert result.report == Report("unsure", "I sent it.", [])
    assert result.answers == ("It is 8.", "I sent it.") and begun == [2]
    texts = [message.text for message in model.received[2] if isinstance(message, HumanMessage)]
    assert texts == list(turns)
    calls = [event for event in events if isinstance(event, ToolCalled)]
    assert sorted((call.tool, call.reply, call.call) for call in calls) == [
        ("get_weather", 1, 1),
        ("get_weather", 3, 2),
        ("send_message", 3, 1),
    ]


def test_turn_without_report_is_its_text(wire: Callable[..., Wire]) -> None:
    replies = [reports("done", "It is 8."), AIMessage("As I said.")]
    result, *_ = converse(lab_of(wire(GOOD).address), ("One", "Two"), *replies)
    assert result.ended_by == "text" and result.report is None
    assert result.answers == ("It is 8.", "As I said.")


def test_limit_holds_for_all_turns_together(wire: Callable[..., Wire]) -> None:
    address = lab_of(wire(GOOD).address)
    result, model, *_ = converse(address, ("One", "Two", "Three"), reports(), model_calls=2)
    assert result.ended_by == "limit" and "2 model calls made (MODEL_CALLS)" in str(result.error)
    assert len(model.received) == 2 and len(result.answers) == 2
