"""The ten tools: what the model sees of each, and the one HTTP request that a call of it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import requests
from pydantic import BaseModel, ConfigDict, Field

from windtunnel.core.fingerprint import fingerprint
from windtunnel.links.catalog import link


class Arguments(BaseModel):
    """Strict: what the schema does not name is refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class Query(Arguments):
    query: str = Field(min_length=1, description="what to search for")


class Weather(Arguments):
    city: str = Field(min_length=1, description="name of the city")
    units: Literal["metric", "standard"] = Field("metric", description="metric: celsius, standard: kelvin")


class Movie(Arguments):
    query: str = Field(min_length=1, description="the movie's title or a part of it")
    language: str | None = Field(None, description="two-letter code of the original language")


class NewEvent(Arguments):
    title: str = Field(min_length=1, description="title of the event")
    date: str = Field(description="date as YYYY-MM-DD")
    time: str = Field(description="time as HH:MM, 24 hours")


class Date(Arguments):
    date: str = Field(description="date as YYYY-MM-DD")


class Expression(Arguments):
    expression: str = Field(min_length=1, description="an arithmetic expression such as sqrt(16) * 3")


class Message(Arguments):
    to: str = Field(min_length=1, description="who receives the message")
    body: str = Field(min_length=1, description="text of the message")


class Nothing(Arguments):
    pass


class Translation(Arguments):
    text: str = Field(min_length=1, description="text to translate")
    source_language: str = Field(description="language of the text, as a two-letter code")
    target_language: str = Field(description="language to translate into, as a two-letter code")


@dataclass(frozen=True)
class ToolRequest:
    """An HTTP request to a tool's link, without host, identity or key."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None

    def prepare(self, base_url: str) -> requests.PreparedRequest:
        return requests.Request(
            self.method, base_url + self.path, params=dict(self.params), json=self.json
        ).prepare()

    @property
    def fingerprint(self) -> str:
        prepared = self.prepare("http://tool")
        body = prepared.body or b""
        return fingerprint(self.method, prepared.path_url, body if isinstance(body, bytes) else body.encode())


@dataclass(frozen=True)
class Tool:
    """``request`` turns validated arguments into the HTTP request."""

    name: str
    link: str
    description: str
    arguments: type[Arguments]
    request: Callable[[Any], ToolRequest]

    def request_for(self, arguments: Mapping[str, Any]) -> ToolRequest:
        """Raises pydantic's ``ValidationError`` for arguments that do not fit the schema."""
        return self.request(self.arguments(**arguments))

    def is_write(self, request: ToolRequest) -> bool:
        return link(self.link).is_write(request.method, request.path)


def _present(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


TOOLS: tuple[Tool, ...] = (
    Tool(
        "search_web",
        "search",
        "Search the web; returns the best results with title, link and snippet.",
        Query,
        lambda a: ToolRequest("GET", "/serp", {"q": a.query}),
    ),
    Tool(
        "get_weather",
        "weather",
        "Get the current weather of a city: temperature, humidity, pressure, wind.",
        Weather,
        lambda a: ToolRequest("GET", "/weather", {"q": a.city, "units": a.units}),
    ),
    Tool(
        "search_movie",
        "movie",
        "Find movies by title; returns name, year and language of each.",
        Movie,
        lambda a: ToolRequest("GET", "/movie", _present(query=a.query, language=a.language)),
    ),
    Tool(
        "add_event",
        "calendar",
        "Add an event to the user's calendar.",
        NewEvent,
        lambda a: ToolRequest("POST", "/events", json=a.model_dump()),
    ),
    Tool(
        "get_event",
        "calendar",
        "List the events in the user's calendar on a date.",
        Date,
        lambda a: ToolRequest("GET", "/events", {"date": a.date}),
    ),
    Tool(
        "delete_event_by_date",
        "calendar",
        "Delete all events in the user's calendar on a date.",
        Date,
        lambda a: ToolRequest("DELETE", "/events", {"date": a.date}),
    ),
    Tool(
        "calculate_expr",
        "calculator",
        "Calculate an arithmetic expression.",
        Expression,
        lambda a: ToolRequest("POST", "/calc", json={"expression": a.expression}),
    ),
    Tool(
        "send_message",
        "message",
        "Send a message to a person.",
        Message,
        lambda a: ToolRequest("POST", "/message", json=a.model_dump()),
    ),
    Tool(
        "get_inbox_message",
        "message",
        "Read the messages in the user's inbox.",
        Nothing,
        lambda a: ToolRequest("GET", "/inbox"),
    ),
    Tool(
        "translate",
        "translator",
        "Translate a text from one language into another.",
        Translation,
        lambda a: ToolRequest("POST", "/translate", json=a.model_dump()),
    ),
)

BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}
