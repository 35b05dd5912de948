"""The agent's tools: what the model sees of them, and what goes out on the wire."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ValidationError

from agent.loop import _tool
from agent.tools import BY_NAME, TOOLS
from tests.agent.support import Wire, asks, fly, http, lab_of, reports
from wirefault.core.identity import fingerprint
from wirefault.history.events import ToolCalled, ToolTry
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import Topology

AWKWARD = "Zürich & 50% + a;b=c/?#é ' \" 日本 \\ \t😀"
CALLS: dict[str, dict[str, Any]] = {
    "search_web": {"query": "capital of Australia"},
    "get_weather": {"city": "Oslo", "units": "standard"},
    "search_movie": {"query": "Parasite", "language": "ko"},
    "add_event": {"title": "Dentist", "date": "2026-04-01", "time": "09:30"},
    "get_event": {"date": "2026-03-12"},
    "delete_event_by_date": {"date": "2026-03-05"},
    "calculate_expr": {"expression": "sqrt(16) * 3"},
    "send_message": {"to": "Bob", "body": "hello"},
    "get_inbox_message": {},
    "translate": {"text": "Good morning", "source_language": "en", "target_language": "fr"},
}
NAMES = tuple(CALLS)
ANSWERS = {
    "search_web": "Canberra",
    "get_weather": "273.65",
    "search_movie": "2019",
    "add_event": "Dentist",
    "get_event": "Team lunch",
    "delete_event_by_date": "1",
    "calculate_expr": "12",
    "send_message": "Bob",
    "get_inbox_message": "4200",
    "translate": "Bonjour",
}


def test_the_agent_has_the_tools_that_the_catalog_names() -> None:
    assert {tool.name for tool in TOOLS} == {name for row in lab_links().tools for name, _, _ in row.tools}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_schema_that_the_model_sees_is_strict_and_shows_nothing_of_the_lab(tool: Any) -> None:
    function = convert_to_openai_tool(_tool(tool))["function"]
    parameters = function["parameters"]
    assert parameters["additionalProperties"] is False
    assert set(parameters["properties"]) == set(tool.arguments.model_fields)
    assert all(each.get("description") for each in parameters["properties"].values())
    shown = json.dumps(function).lower()
    assert not [
        word for word in ("key", "port", "127.0", "http", "_id", "idempot", "expect") if word in shown
    ]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_schema_does_not_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        BY_NAME[name].request_for({**CALLS[name], "idempotency_key": "x"})


@pytest.mark.parametrize("text", ["", "   ", None, 7, ["a"], "\ud800"])
def test_a_text_must_be_one(text: object) -> None:
    with pytest.raises(ValidationError):
        BY_NAME["search_web"].request_for({"query": text})


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_works_at_its_real_service(name: str, services: Topology) -> None:
    flown = fly(services, asks((name, CALLS[name])), reports(), run=f"run-{name}")
    [call], [told] = flown.of(ToolCalled), flown.told
    assert (call.ok, call.error, call.tries) == (True, None, 1), call.result
    assert ANSWERS[name] in told.text
    assert call.result == told.content
    assert call.side_effect == ("done" if name in WRITES else "none")


WRITES = ("add_event", "delete_event_by_date", "send_message")


@pytest.mark.parametrize("name", NAMES)
def test_only_the_calls_that_change_something_are_writes(name: str) -> None:
    tool = BY_NAME[name]
    assert tool.is_write(tool.request_for(CALLS[name])) is (name in WRITES)


def _awkward(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: AWKWARD if key not in ("units", "language") else value for key, value in arguments.items()}


@pytest.mark.parametrize("make", [dict, _awkward], ids=["plain", "awkward"])
@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_is_that_of_what_is_on_the_wire(
    name: str, make: Callable[[Any], Any], wire: Callable[..., Wire]
) -> None:
    server = wire(http(200, {}))
    flown = fly(lab_of(server.address), asks((name, make(CALLS[name]))), reports())
    [asked], [seen], [call] = server.asked, flown.of(ToolTry), flown.of(ToolCalled)
    there = fingerprint(asked.method, asked.target, asked.body)
    assert seen.fingerprint == call.fingerprint == there


def test_white_space_around_an_argument_makes_no_other_call() -> None:
    weather = BY_NAME["get_weather"]
    bare, padded = weather.request_for({"city": "Paris"}), weather.request_for({"city": " Paris\n"})
    assert bare.fingerprint == padded.fingerprint


def test_an_absent_argument_is_not_sent() -> None:
    prepared = BY_NAME["search_movie"].request_for({"query": "Alien"}).prepare("http://tool")
    assert isinstance(prepared, requests.PreparedRequest)
    assert prepared.path_url == "/movie?query=Alien"
