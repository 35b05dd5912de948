"""One link of a wiring: a named way from a subject to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from wirefault.dialects.mcp import MCP
from wirefault.dialects.openai_chat import OPENAI_CHAT

HTTP = "http"
LAB = "lab"
SCRIPTED = "scripted"
STDIO = "stdio"


@dataclass(frozen=True)
class Link:
    """What a wiring says of one link.

    ``upstream`` is an address with its path prefix, ``lab`` for a tool service that the lab starts,
    ``scripted`` for the scripted model, or ``stdio`` for an MCP server that the subject starts itself, by
    ``command`` unless its own configuration names one. ``dialect`` is ``http``, ``mcp`` or that of a model's
    API. ``env`` are the variables in which the subject finds its address. ``writes`` are the calls that
    change state, as ``METHOD /path`` or, on a link of MCP, a tool's name, with ``*`` for any part of it;
    ``key`` is the field of a write's JSON body, or of the tool's arguments, by which its upstream knows a
    repetition. ``planted``: faults that plant instructions may strike it though it is not the lab's. ``port``
    is where a service of the lab listens; ``tools`` are the names that the lab's agent knows the calls by,
    each with its method and path; ``effects`` the kinds of side effects that the service records, each with
    its fields, as prompts expect them. ``hosts``: whose intercepted connections are this link's, as ``name``
    or ``name:port``; without any those of its upstream. ``found``: it was made when the subject called that
    host for the first time.
    """

    name: str
    upstream: str = LAB
    dialect: str = HTTP
    env: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    key: str = ""
    planted: bool = False
    service: str = ""
    port: int = 0
    tools: tuple[tuple[str, str, str], ...] = ()
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    hosts: tuple[str, ...] = ()
    found: bool = False
    command: tuple[str, ...] = ()

    @property
    def is_model(self) -> bool:
        return self.dialect not in (HTTP, MCP.name)

    @property
    def takes_model(self) -> bool:
        """Whether the setting MODEL chooses who answers: the scripted model's place is another's to take."""
        return self.upstream == SCRIPTED and self.dialect == OPENAI_CHAT.name

    @property
    def is_of_lab(self) -> bool:
        """Whether its upstream is one of the lab's own servers."""
        return self.upstream in (LAB, SCRIPTED)

    @property
    def dialect_by_request(self) -> bool:
        """Whether each request tells what is spoken there, HTTP or MCP, since nobody has declared it."""
        return self.found and self.dialect == HTTP

    @property
    def is_stdio(self) -> bool:
        """Whether its server is a process that the subject starts, by way of ``wirefault mcp``."""
        return self.upstream == STDIO

    @property
    def base_path(self) -> str:
        """The path prefix of its upstream, which the subject's address has too; empty for the lab's own."""
        return "" if self.is_of_lab else urlsplit(self.upstream).path.rstrip("/")

    def proxy_name(self, lane: int = 0) -> str:
        """Toxiproxy's name of this link: ``search_proxy``; on lane k > 0 ``search_proxy_k``."""
        return f"{self.name}_proxy" + (f"_{lane}" if lane else "")

    def is_write(self, method: str, target: str, tool: str = "") -> bool:
        """Whether the request is declared as one that changes state; its query does not matter.

        ``tool``: what it calls, on a link of MCP.
        """
        call = tool if self.dialect == MCP.name else f"{method.upper()} {target.partition('?')[0]}"
        return any(fnmatchcase(call, pattern) for pattern in self.writes)

    @classmethod
    def of_entry(cls, name: str, entry: Mapping[str, Any]) -> Link:
        """From an entry of a wiring's ``links`` in which nothing is wrong."""
        upstream, mcp, env = entry.get("upstream", ""), entry.get("mcp"), entry.get("env", ())
        variables = (env,) if isinstance(env, str) else tuple(env)
        return cls(
            name=name,
            upstream=upstream.rstrip("/"),
            dialect=entry.get("dialect", HTTP),
            env=variables or (f"{name.upper()}_{'URL' if mcp is None else 'MCP'}",),
            writes=tuple(entry.get("writes", ())),
            key=entry.get("key", ""),
            hosts=tuple(host.lower() for host in entry.get("hosts", ())),
            planted=entry.get("planted", False),
            service={LAB: f"{name}_tool", SCRIPTED: name}.get(upstream, ""),
            port=entry.get("port", 0),
            tools=tuple((tool, *call.split(" ", 1)) for tool, call in entry.get("tools", {}).items()),
            effects={kind: tuple(fields) for kind, fields in entry.get("effects", {}).items()},
            command=() if mcp is None else tuple(mcp.get("command", ())),
        )

    def dump(self) -> dict[str, Any]:
        """As plain JSON, which ``load`` takes."""
        return asdict(self)

    @classmethod
    def load(cls, row: Mapping[str, Any]) -> Link:
        """From what ``dump`` gave, also by way of JSON. Raises ``ValueError`` for anything else."""
        try:
            tools = tuple((tool, method, path) for tool, method, path in row.get("tools", ()))
            effects = {kind: tuple(fields) for kind, fields in row.get("effects", {}).items()}
            lists = {key: tuple(row.get(key, ())) for key in ("env", "writes", "hosts", "command")}
            return cls(**{**row, **lists, "tools": tools, "effects": effects})
        except (TypeError, AttributeError) as error:
            raise ValueError(f"no link of a wiring: {error}") from None
