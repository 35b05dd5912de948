"""The eight links between the agent and what it calls: the one table that everything derives from.

Adding a tool is one row here, one module in ``flask_tools`` and one tool in ``agent``.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.core.spelling import nearest

MANAGER_PORT = 8000
CONTROL_PORT = 7070
TOXIPROXY_PORT = 8474


@dataclass(frozen=True)
class Link:
    """One link: the caller dials ``proxy_port``, which leads to ``gateway_port``, which leads to ``port``.

    ``writes`` are the (method, path) pairs whose calls change state on the service; ``tools`` the names
    that the agent's model knows them by, each with its method and path.
    """

    name: str
    service: str
    port: int
    writes: frozenset[tuple[str, str]] = frozenset()
    tools: tuple[tuple[str, str, str], ...] = ()

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
    ),
    Link("calculator", "calculator_tool", 5004, tools=_tools(calculate_expr="POST /calc")),
    Link(
        "message",
        "message_tool",
        5005,
        _writes("POST /message"),
        _tools(send_message="POST /message", get_inbox_message="GET /inbox"),
    ),
    Link("translator", "translator_tool", 5006, tools=_tools(translate="POST /translate")),
)
MODEL_LINK = Link("model", "model", 5007)
LINKS: tuple[Link, ...] = (*TOOL_LINKS, MODEL_LINK)
TOOL_LINK_NAMES = tuple(row.name for row in TOOL_LINKS)

_BY_NAME = {link.name: link for link in LINKS}


def link(name: str) -> Link:
    """The link of that name; raises ``KeyError`` that names the nearest valid one."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise KeyError(f"no link is called {name!r}{nearest(name, _BY_NAME)}") from None


def link_of_tool(name: str) -> tuple[str, str, str]:
    """Link, method and path of a tool by its name; raises ``KeyError`` that names the nearest valid one."""
    tools = {tool: (link.name, method, path) for link in TOOL_LINKS for tool, method, path in link.tools}
    try:
        return tools[name]
    except KeyError:
        raise KeyError(f"no tool is called {name!r}{nearest(name, tools)}") from None
