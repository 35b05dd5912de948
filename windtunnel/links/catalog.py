"""The links between the agent and what it calls: the one table that everything derives from.

A tool service is a row here, a module of ``flask_tools`` and tools in ``agent``: docs/adding-a-tool.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windtunnel.core.spelling import nearest

MANAGER_PORT = 8000
CONTROL_PORT = 7070
TOXIPROXY_PORT = 8474


@dataclass(frozen=True)
class Link:
    """One link: the caller dials ``proxy_port``, which leads to ``gateway_port``, which leads to ``port``.

    ``writes`` are the (method, path) pairs whose calls change state on the service; ``tools`` the names
    that the agent's model knows them by, each with its method and path; ``effects`` the kinds of side
    effects that the service records, each with its fields, as prompts expect them.
    """

    name: str
    service: str
    port: int
    writes: frozenset[tuple[str, str]] = frozenset()
    tools: tuple[tuple[str, str, str], ...] = ()
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def proxy_port(self) -> int:
        return self.port + 1000

    @property
    def gateway_port(self) -> int:
        return self.port + 2000

    def proxy_name(self, lane: int = 0) -> str:
        """Toxiproxy's name of this link: ``search_proxy``; on lane k > 0 ``search_proxy_k``."""
        return f"{self.name}_proxy" + (f"_{lane}" if lane else "")

    def is_write(self, method: str, path: str) -> bool:
        return (method.upper(), path) in self.writes


def _writes(*calls: str) -> frozenset[tuple[str, str]]:
    return frozenset((method, path) for method, path in (call.split() for call in calls))


def _tools(**calls: str) -> tuple[tuple[str, str, str], ...]:
    pairs = ((name, call.split()) for name, call in calls.items())
    return tuple((name, method, path) for name, (method, path) in pairs)


def _effects(**fields: str) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(names.split()) for kind, names in fields.items()}


TOOL_LINKS: tuple[Link, ...] = (
    Link("search", "search_tool", 5000, tools=_tools(search_web="GET /serp")),
    Link("weather", "weather_tool", 5001, tools=_tools(get_weather="GET /weather")),
    Link("movie", "movie_tool", 5002, tools=_tools(search_movie="GET /movie")),
    Link(
        "calendar",
        "calendar_tool",
        5003,
        _writes("POST /events", "DELETE /events"),
        _tools(add_event="POST /events", get_event="GET /events", delete_event_by_date="DELETE /events"),
        _effects(event_created="title date time", events_deleted="date count titles times"),
    ),
    Link("calculator", "calculator_tool", 5004, tools=_tools(calculate_expr="POST /calc")),
    Link(
        "message",
        "message_tool",
        5005,
        _writes("POST /message"),
        _tools(send_message="POST /message", get_inbox_message="GET /inbox"),
        _effects(message_sent="to body"),
    ),
    Link("translator", "translator_tool", 5006, tools=_tools(translate="POST /translate")),
)
MODEL_LINK = Link("model", "model", 5007)
LINKS: tuple[Link, ...] = (*TOOL_LINKS, MODEL_LINK)
TOOL_LINK_NAMES = tuple(row.name for row in TOOL_LINKS)
EFFECT_FIELDS = {kind: fields for row in TOOL_LINKS for kind, fields in row.effects.items()}

_BY_NAME = {row.name: row for row in LINKS}
_BY_TOOL = {tool: (row.name, method, path) for row in TOOL_LINKS for tool, method, path in row.tools}


def link(name: str) -> Link:
    """The link of that name; raises ``KeyError`` that names the nearest valid one."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise KeyError(f"no link is called {name!r}{nearest(name, _BY_NAME)}") from None


def link_of_tool(name: str) -> tuple[str, str, str]:
    """Link, method and path of a tool by its name; raises ``KeyError`` that names the nearest valid one."""
    try:
        return _BY_TOOL[name]
    except KeyError:
        raise KeyError(f"no tool is called {name!r}{nearest(name, _BY_TOOL)}") from None
