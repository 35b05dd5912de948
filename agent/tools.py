"""The agent's tools: the description and schema that the model sees, and the HTTP request of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import requests
from pydantic import BaseModel, ConfigDict, Field

from wirefault.core.identity import fingerprint
from wirefault.wiring.links import lab_links


class _Arguments(BaseModel):
    """Strict arguments, which refuse names that the schema does not have."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class _Query(_Arguments):
    query: str = Field(min_length=1, description="what to search for")


class _Weather(_Arguments):
    city: str = Field(min_length=1, description="name of the city")
    units: Literal["metric", "standard"] = Field("metric", description="metric: celsius, standard: kelvin")


class _Title(_Arguments):
    query: str = Field(min_length=1, description="the movie's title or a part of it")
    language: str | None = Field(None, description="two-letter code of the original language")


class _Event(_Arguments):
    title: str = Field(min_length=1, description="title of the event")
    date: str = Field(description="date as YYYY-MM-DD")
    time: str = Field(description="time as HH:MM, 24 hours")


class _Date(_Arguments):
    date: str = Field(description="date as YYYY-MM-DD")


class _Expression(_Arguments):
    expression: str = Field(min_length=1, description="an arithmetic expression such as sqrt(16) * 3")


class _Message(_Arguments):
    to: str = Field(min_length=1, description="who receives the message")
    body: str = Field(min_length=1, description="text of the message")


class _Nothing(_Arguments):
    pass


class _Translation(_Arguments):
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


def _by_name(arguments: BaseModel) -> dict[str, Any]:
    """Return each argument by name, without omitted arguments."""
    return arguments.model_dump(exclude_none=True)


@dataclass(frozen=True)
class AgentTool:
    """A tool from the model's view; the wiring has its link, method and path."""

    name: str
    description: str
    arguments: type[BaseModel]
    values: Callable[[Any], dict[str, Any]] = _by_name  # arguments to JSON fields (POST) or query parameters

    @property
    def link(self) -> str:
        return lab_links().tool_link(self.name)[0]

    def request_for(self, arguments: Mapping[str, Any]) -> ToolRequest:
        """Build the request. Raises pydantic's ``ValidationError`` for invalid arguments."""
        _, method, path = lab_links().tool_link(self.name)
        values = self.values(self.arguments(**arguments))
        return ToolRequest(method, path, **({"json": values} if method == "POST" else {"params": values}))

    def is_write(self, request: ToolRequest) -> bool:
        return lab_links()[self.link].is_write(request.method, request.path)


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        "search_web",
        "Search the web; returns the best results with title, link and snippet.",
        _Query,
        lambda search: {"q": search.query},
    ),
    AgentTool(
        "get_weather",
        "Get the current weather of a city: temperature, humidity, pressure, wind.",
        _Weather,
        lambda weather: {"q": weather.city, "units": weather.units},
    ),
    AgentTool("search_movie", "Find movies by title; returns name, year and language of each.", _Title),
    AgentTool("add_event", "Add an event to the user's calendar.", _Event),
    AgentTool("get_event", "List the events in the user's calendar on a date.", _Date),
    AgentTool("delete_event_by_date", "Delete all events in the user's calendar on a date.", _Date),
    AgentTool("calculate_expr", "Calculate an arithmetic expression.", _Expression),
    AgentTool("send_message", "Send a message to a person.", _Message),
    AgentTool("get_inbox_message", "Read the messages in the user's inbox.", _Nothing),
    AgentTool("translate", "Translate a text from one language into another.", _Translation),
)

BY_NAME: Mapping[str, AgentTool] = {tool.name: tool for tool in TOOLS}
