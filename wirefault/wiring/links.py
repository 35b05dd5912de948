"""The links of a wiring, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from wirefault.core.errors import nearest
from wirefault.dialects.mcp import MCP
from wirefault.wiring.link import Link

# In a fault set for a subject whose links are found while it runs: those of a group that are found then.
FOUND_TOOLS, FOUND_WRITES, FOUND_MODELS = "found:tools", "found:writes", "found:model"


class Links:
    """Every link of one wiring by its name. It never changes.

    ``grows``: while its subject runs further links are found, of which more Links are made by ``adding``.
    """

    def __init__(self, links: Iterable[Link], *, grows: bool = False) -> None:
        self._links = tuple(links)
        self.grows = grows
        self._by_name = {link.name: link for link in self._links}

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Links) and (self._links, self.grows) == (other._links, other.grows)

    def __hash__(self) -> int:
        return hash((self._links, self.grows))

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Link:
        """The link of that name; raises ``KeyError`` that names the nearest one."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"no link is called {name!r}{nearest(name, self._by_name)}") from None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @cached_property
    def tools(self) -> tuple[Link, ...]:
        """Those to tools and services of any kind: all but the models'."""
        return tuple(link for link in self._links if not link.is_model)

    @cached_property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.tools)

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self._links if link.is_model)

    @cached_property
    def mcp_names(self) -> tuple[str, ...]:
        """What an entry about MCP may stand on: the links on which it is spoken, and those that are found,
        where each request tells."""
        names = tuple(
            link.name for link in self._links if link.dialect == MCP.name or link.dialect_by_request
        )
        return (*names, FOUND_TOOLS, FOUND_WRITES) if self.grows else names

    @cached_property
    def declared_tools(self) -> frozenset[str]:
        """The names of calls that the wiring gives; a server of MCP names its tools itself."""
        return frozenset(name for link in self._links for name, *_ in link.tools)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """What a fault set may say for several links."""
        writes = tuple(link.name for link in self._links if link.writes)
        tools, model = self.tool_names, self.model_names
        if self.grows:
            writes, tools, model = (*writes, FOUND_WRITES), (*tools, FOUND_TOOLS), (*model, FOUND_MODELS)
        return {"tools": tools, "writes": writes, "model": model, "all": self.eligible_names}

    @cached_property
    def eligible_names(self) -> tuple[str, ...]:
        """What an entry of a fault set may stand on: the links, then those to be found, by group."""
        return (*self.names, *((FOUND_TOOLS, FOUND_MODELS) if self.grows else ()))

    @cached_property
    def found_by_group(self) -> Mapping[str, tuple[str, ...]]:
        """The links that were found, by the name that a fault set has for those of a group."""
        tools = tuple(link.name for link in self.tools if link.found)
        models = tuple(link.name for link in self._links if link.found and link.is_model)
        return {FOUND_TOOLS: tools, FOUND_WRITES: tools, FOUND_MODELS: models}

    def adding(self, links: Iterable[Link]) -> Links:
        """These and those, which are left out where their name is here already."""
        return Links((*self._links, *(link for link in links if link.name not in self)), grows=self.grows)

    @cached_property
    def effect_fields(self) -> Mapping[str, tuple[str, ...]]:
        """The fields of each kind of side effect that a service records."""
        return {kind: fields for link in self._links for kind, fields in link.effects.items()}

    def link_of_tool(self, tool: str) -> tuple[str, str, str]:
        """Link, method and path of a tool; raises ``KeyError`` that names the nearest one."""
        by_tool = {
            name: (link.name, method, path) for link in self._links for name, method, path in link.tools
        }
        try:
            link, method, path = by_tool[tool]
            return link, method, path
        except KeyError:
            raise KeyError(f"no tool is called {tool!r}{nearest(tool, by_tool)}") from None

    def link_of_service(self, service: str) -> str:
        """The name of the link whose service of the lab that is; empty if there is none."""
        return next((link.name for link in self._links if link.service and link.service == service), "")

    def dump(self) -> list[dict[str, Any]]:
        """As plain JSON, which ``load`` takes."""
        return [link.dump() for link in self._links]

    @classmethod
    def load(cls, rows: Iterable[Mapping[str, Any]], *, grows: bool = False) -> Links:
        return cls(map(Link.load, rows), grows=grows)
