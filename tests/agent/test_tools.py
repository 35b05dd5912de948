"""The agent's tools: what the model sees and what they send."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ValidationError

from agent.loop import _tool
from agent.tools import BY_NAME, TOOLS
from tests.agent.support import Wire, asks, http, lab_of, reports, run_agent
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


def test_agent_tools_match_wiring() -> None:
    assert {tool.name for tool in TOOLS} == {name for row in lab_links().tools for name, _, _ in row.tools}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_schemas_are_strict_and_hide_lab(tool: Any) -> None:
    function = convert_to_openai_tool(_tool(tool))["function"]
    parameters = function["parameters"]
    assert parameters["additionalProperties"] is False
    assert set(parameters["properties"]) == set(tool.arguments.model_fields)
    assert all(each.get("description") for each in parameters["properties"].values())
    text = json.dumps(function).lower()
    assert not [word for word in ("key", "port", "127.0", "http", "_id", "idempot", "expect") if word in text]


@pytest.mark.parametrize("name", NAMES)
def test_unknown_arguments_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        BY_NAME[name].request_for({**CALLS[name], "idempotency_key": "x"})


@pytest.mark.parametrize("text", ["", "   ", None, 7, ["a"], "\ud800"])
def test_text_arguments_must_be_nonempty(text: object) -> None:
    with pytest.raises(ValidationError):
        BY_NAME["search_web"].request_for({"query": text})


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_calls_its_service(name: str, services: Topology) -> None:
    outcome = run_agent(services, asks((name, CALLS[name])), reports(), run=f"run-{name}")
    [call], [message] = outcome.of(ToolCalled), outcome.tool_results
    assert (call.ok, call.error, call.tries) == (True, None, 1), call.result
    assert ANSWERS[name] in message.text
    assert call.result == message.content
    assert call.side_effect == ("done" if name in WRITES else "none")


WRITES = ("add_event", "delete_event_by_date", "send_message")


@pytest.mark.parametrize("name", NAMES)
def test_only_changing_calls_are_writes(name: str) -> None:
    tool = BY_NAME[name]
    assert tool.is_write(tool.request_for(CALLS[name])) is (name in WRITES)


def _awkward(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: AWKWARD if key not in ("units", "language") else value for key, value in arguments.items()}


@pytest.mark.parametrize("make", [dict, _awkward], ids=["plain", "awkward"])
@pytest.mark.parametrize("name", NAMES)
def test_fingerprint_matches_wire(name: str, make: Callable[[Any], Any], wire: Callable[..., Wire]) -> None:
    server = wire(http(200, {}))
    outcome = run_agent(lab_of(server.address), asks((name, make(CALLS[name]))), reports())
    [request], [seen], [call] = server.received, outcome.of(ToolTry), outcome.of(ToolCalled)
    there = fingerprint(request.method, request.target, request.body)
    assert seen.fingerprint == call.fingerprint == there


def test_argument_whitespace_is_ignored() -> None:
    weather = BY_NAME["get_weather"]
    bare, padded = weather.request_for({"city": "Paris"}), weather.request_for({"city": " Paris\n"})
    assert bare.fingerprint == padded.fingerprint


def test_absent_argument_is_not_sent() -> None:
    prepared = BY_NAME["search_movie"].request_for({"query": "Alien"}).prepare("http://tool")
    assert isinstance(prepared, requests.PreparedRequest)
    assert prepared.path_url == "/movie?query=Alien"
