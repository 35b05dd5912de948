"""The links of a wiring, in its order."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct, convert, field, to_builtins

from wirefault.core.errors import nearest
from wirefault.core.redaction import Redaction
from wirefault.core.sockets import Address, is_loopback
from wirefault.dialects.mcp import MCP
from wirefault.dialects.openai_chat import OPENAI_CHAT

HTTP = "http"
LAB = "lab"
SCRIPTED = "scripted"
STDIO = "stdio"
PYTHON = "python"
# Under interception, a Python process calls its own functions at this host: at the first port through the
# link's proxy, at the second one straight, for their return.
FUNCTIONS_HOST, FUNCTIONS_PORT, RETURN_PORT = "functions.wirefault.internal", 80, 81
FUNCTIONS_NAME = "functions"


class Link(Struct, frozen=True, omit_defaults=True):
    """One link of a wiring."""

    name: str
    upstream: str = LAB
    """An address with its path prefix, ``lab`` (a tool service that the lab starts), ``scripted`` (the
    scripted model), ``stdio`` (an MCP server that the subject starts) or ``python`` (functions of the
    subject's own processes)."""
    dialect: str = HTTP
    """``http``, ``mcp`` or the name of a model's API."""
    env: tuple[str, ...] = ()
    """Variables that give the subject the link's address."""
    writes: tuple[str, ...] = ()
    """Calls that change state: ``METHOD /path``, ``METHOD /path operation`` or, on an MCP link, a tool name,
    with ``*`` for any part."""
    writes_declared: bool = False
    """Whether the wiring has ``writes``, so that no other call changes state; it may be an empty list."""
    key: str = ""
    """The field of a write's JSON body, or of the tool's arguments, that identifies a repetition."""
    planted: bool = False
    """Whether faults that plant instructions may act on it although it is not the lab's."""
    service: str = ""
    port: int = 0
    """Where the lab's service listens."""
    tools: tuple[tuple[str, str, str], ...] = ()
    """The agent's name for each call, with its method and path."""
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The fields of each kind of side effect that the service records."""
    hosts: tuple[str, ...] = ()
    """Hosts (``name`` or ``name:port``) whose intercepted connections use this link; default: its own."""
    found: bool = False
    """Whether it was made at run time, when the subject first called the host."""
    recognised: bool = False
    """Whether its dialect was read in a request at run time. Others on it may be of plain HTTP."""
    command: tuple[str, ...] = ()
    """Starts the MCP server, unless the subject's configuration names a command."""

    def __hash__(self) -> int:
        return hash((self.name, self.upstream))  # a mapping has no hash

    @property
    def is_model(self) -> bool:
        return self.dialect not in (HTTP, MCP.name)

    @property
    def takes_model(self) -> bool:
        """Return whether the setting MODEL chooses the server: it replaces the scripted model."""
        return self.upstream == SCRIPTED and self.dialect == OPENAI_CHAT.name

    @property
    def is_of_lab(self) -> bool:
        """Return whether the upstream is one of the lab's own servers."""
        return self.upstream in (LAB, SCRIPTED)

    @property
    def dialect_by_request(self) -> bool:
        """Return whether the dialect (HTTP, MCP or a model's API) is detected for each request because the
        wiring does not declare it.
        """
        return self.found and (self.dialect == HTTP or self.recognised)

    @property
    def is_stdio(self) -> bool:
        """Return whether the server is a process that the subject starts through ``wirefault mcp``."""
        return self.upstream == STDIO

    @property
    def is_in_process(self) -> bool:
        """Return whether its calls are of functions of the subject's own processes: ``QUERY /NAME`` if the
        function is marked as a read, else ``POST /NAME``.
        """
        return self.upstream == PYTHON

    @property
    def base_path(self) -> str:
        """Return the upstream's path prefix, which is also in the subject's address; empty for the lab's
        servers.
        """
        return "" if self.is_of_lab or self.is_in_process else urlsplit(self.upstream).path.rstrip("/")

    def proxy_name(self, lane: int = 0) -> str:
        """Return Toxiproxy's name for this link: ``search_proxy``; on lane k > 0 ``search_proxy_k``."""
        return f"{self.name}_proxy" + (f"_{lane}" if lane else "")

    @property
    def declares_operations(self) -> bool:
        """Return whether a declared write names an operation, so that ``is_write`` needs it."""
        return self.dialect != MCP.name and any(pattern.count(" ") > 1 for pattern in self.writes)

    def is_write(self, method: str, target: str, tool: str = "", operation: str = "") -> bool:
        """Return whether the request is a declared write; its query does not matter.

        ``tool``: the tool that it calls, on an MCP link. ``operation`` of a path that serves several.
        """
        path = target.partition("?")[0]
        call = tool if self.dialect == MCP.name else f"{method.upper()} {path}"
        if self.is_in_process:
            call = unquote(path[1:])
        calls = (call, f"{call} {operation}") if operation else (call,)
        return any(fnmatchcase(call, pattern) for call in calls for pattern in self.writes)

    @classmethod
    def of_entry(cls, name: str, entry: Mapping[str, Any]) -> Link:
        """Build a link from a valid entry of a wiring's ``links``."""
        upstream, mcp, env = entry.get("upstream", ""), entry.get("mcp"), entry.get("env", ())
        variables = (env,) if isinstance(env, str) else tuple(env)
        return cls(
            name=name,
            upstream=upstream.rstrip("/"),
            dialect=entry.get("dialect", HTTP),
            env=variables or (f"{name.upper()}_{'URL' if mcp is None else 'MCP'}",),
            writes=tuple(entry.get("writes", ())),
            writes_declared="writes" in entry,
            key=entry.get("key", ""),
            hosts=tuple(host.lower() for host in entry.get("hosts", ()))
            or ((FUNCTIONS_HOST,) if upstream == PYTHON else ()),
            planted=entry.get("planted", False),
            service={LAB: f"{name}_tool", SCRIPTED: name}.get(upstream, ""),
            port=entry.get("port", 0),
            tools=tuple((tool, *call.split(" ", 1)) for tool, call in entry.get("tools", {}).items()),
            effects={kind: tuple(fields) for kind, fields in entry.get("effects", {}).items()},
            command=() if mcp is None else tuple(mcp.get("command", ())),
        )


FOUND_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PORT_NAME = re.compile(r"port_[1-9][0-9]{0,4}")
_LIKELY_MISSPELT = 0.8  # similarity of an unknown name to a known one
# Names in a fault set for links that are found while the subject runs, by group.
FOUND_TOOLS, FOUND_WRITES, FOUND_MODELS = "found:tools", "found:writes", "found:model"


class Links:
    """All links of one wiring by name; immutable.

    ``grows``: further links are found while the subject runs; ``adding`` returns new Links with them.
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
        """Return the link of that name; raises ``KeyError`` that names the closest one."""
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"unknown link {name!r}{nearest(name, self._by_name)}") from None

    def get(self, name: str) -> Link | None:
        """Return the link of that name, None without one."""
        return self._by_name.get(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @cached_property
    def tools(self) -> tuple[Link, ...]:
        """Return all links except model links."""
        return tuple(link for link in self._links if not link.is_model)

    @cached_property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.tools)

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self._links if link.is_model)

    @cached_property
    def mcp_names(self) -> tuple[str, ...]:
        """Return the targets of MCP entries: links that speak MCP, and those found at run time."""
        names = tuple(
            link.name for link in self._links if link.dialect == MCP.name or link.dialect_by_request
        )
        return (*names, FOUND_TOOLS, FOUND_WRITES) if self.grows else names

    @cached_property
    def with_tool_requests(self) -> tuple[str, ...]:
        """Return the names of the links on which requests may be of no model."""
        return tuple(link.name for link in self._links if not link.is_model or link.dialect_by_request)

    @cached_property
    def by_request(self) -> frozenset[str]:
        """Return the names of the links on which each request shows its dialect."""
        return frozenset(link.name for link in self._links if link.dialect_by_request)

    @cached_property
    def function_names(self) -> frozenset[str]:
        """Return the names of the links whose calls are functions of the subject."""
        return frozenset(link.name for link in self._links if link.is_in_process)

    @cached_property
    def declared_tools(self) -> frozenset[str]:
        """Return the names of calls that the wiring declares; an MCP server names its tools itself."""
        return frozenset(name for link in self._links for name, *_ in link.tools)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return the group names that stand for several links in a fault set."""
        writes = tuple(link.name for link in self._links if link.writes)
        tools, model = self.tool_names, self.model_names
        if self.grows:
            writes, tools, model = (*writes, FOUND_WRITES), (*tools, FOUND_TOOLS), (*model, FOUND_MODELS)
        return {"tools": tools, "writes": writes, "model": model, "all": self.eligible_names}

    @cached_property
    def eligible_names(self) -> tuple[str, ...]:
        """Return the possible targets of a fault set's entry: the links, then the groups to be found."""
        return (*self.names, *((FOUND_TOOLS, FOUND_MODELS) if self.grows else ()))

    def may_be_found(self, name: str) -> bool:
        """Return whether a link of that name, which is unknown now, may be found at run time."""
        new = name not in self and name not in self.groups and name not in self.found_by_group
        return self.grows and new and FOUND_NAME.fullmatch(name) is not None

    def why_never_found(self, name: str) -> str:
        """Return why no link of that name can be found at run time, with what to write; empty if one may.

        A name that resembles a group or a link of the wiring is taken as misspelt, unless it is the usual
        name of a server.
        """
        if not self.may_be_found(name):
            server = server_in(name) if self.grows else None
            if server is not None:
                return f"name the link, not the server: {found_name(*server)}"
            known = (*self.names, *self.groups)
            close = get_close_matches(name.lower(), MODEL_NAMES) if self.grows else ()
            return f"unknown link {name!r}{nearest(name, (*known, *close))}"
        if _PORT_NAME.fullmatch(name) or name in MODEL_NAMES or re.sub(r"_\d+$", "", name) in self:
            return ""
        known = (*self.names, *(group for group in self.groups if group != "all"))
        if get_close_matches(name, known, n=1, cutoff=_LIKELY_MISSPELT):
            return f"unknown link {name!r}{nearest(name, known)}"
        return ""

    @cached_property
    def found_by_group(self) -> Mapping[str, tuple[str, ...]]:
        """Return the links found at run time, by their group's name in a fault set."""
        tools = tuple(link.name for link in self.tools if link.found)
        models = tuple(link.name for link in self._links if link.found and link.is_model)
        return {FOUND_TOOLS: tools, FOUND_WRITES: tools, FOUND_MODELS: models}

    @cached_property
    def found_by_requests(self) -> Mapping[str, tuple[str, ...]]:
        """Return the same for faults of single requests: a link is in each group that its requests may be
        in.
        """
        tools = tuple(name for name in self.with_tool_requests if self[name].found)
        models = tuple(
            link.name for link in self._links if link.found and (link.is_model or link.dialect_by_request)
        )
        return {FOUND_TOOLS: tools, FOUND_WRITES: tools, FOUND_MODELS: models}

    def adding(self, links: Iterable[Link]) -> Links:
        """Return these links and the new ones; a new one with an existing name is dropped."""
        return Links((*self._links, *(link for link in links if link.name not in self)), grows=self.grows)

    @cached_property
    def effect_fields(self) -> Mapping[str, tuple[str, ...]]:
        """Return the fields of each kind of side effect that a service records."""
        return {kind: fields for link in self._links for kind, fields in link.effects.items()}

    def tool_link(self, tool: str) -> tuple[str, str, str]:
        """Return link, method and path of a tool; raises ``KeyError`` that names the closest one."""
        by_tool = {
            name: (link.name, method, path) for link in self._links for name, method, path in link.tools
        }
        try:
            link, method, path = by_tool[tool]
            return link, method, path
        except KeyError:
            raise KeyError(f"unknown tool {tool!r}{nearest(tool, by_tool)}") from None

    def service_link_name(self, service: str) -> str:
        """Return the name of the link to that lab service; empty if there is none."""
        return next((link.name for link in self._links if link.service and link.service == service), "")

    def redacted(self, redaction: Redaction) -> list[Link]:
        """Return the links without secrets, for a history."""
        return convert(redaction.value(to_builtins(self._links)), list[Link])


LAB_WIRING = Path(__file__).with_name("lab.json")


@lru_cache(maxsize=1)  # a file of this package, which does not change
def lab_links() -> Links:
    """Return the links of ``lab_wiring`` without checking the file, which takes many times as long."""
    entries = json.loads(LAB_WIRING.read_text(encoding="utf-8"))["links"]
    return Links(Link.of_entry(name, entry) for name, entry in entries.items())


MAX_FOUND_LINKS = 32
_MAX_NAME_LENGTH = 32
# Hosts of model providers: link name and dialect. The path of a request can override the dialect, since one
# host serves several.
MODEL_HOSTS = {
    "api.openai.com": ("openai", "openai_chat"),
    "api.anthropic.com": ("anthropic", "anthropic"),
    "generativelanguage.googleapis.com": ("gemini", "gemini"),
    "api.groq.com": ("groq", "openai_chat"),
    "api.mistral.ai": ("mistral", "openai_chat"),
    "api.deepseek.com": ("deepseek", "openai_chat"),
    "api.x.ai": ("xai", "openai_chat"),
    "api.together.xyz": ("together", "openai_chat"),
    "api.fireworks.ai": ("fireworks", "openai_chat"),
    "api.cerebras.ai": ("cerebras", "openai_chat"),
    "openrouter.ai": ("openrouter", "openai_chat"),
}
_MODEL_SUFFIXES = {".openai.azure.com": ("azure_openai", "openai_chat")}
MODEL_NAMES = frozenset(name for name, _ in (*MODEL_HOSTS.values(), *_MODEL_SUFFIXES.values()))
_RESERVED_NAMES = ("tools", "writes", "model", "all")  # groups of a fault set


def found_link(host: str, port: int, scheme: str, taken: Collection[str], *, scripted: bool = False) -> Link:
    """Make a link to that server, under a name that is not in ``taken``.

    ``scheme``: http or https, as the subject uses there. A provider's host becomes a model link, any other
    host a tool link named after the host, or after its port on this machine. ``scripted``: the scripted model
    answers for the providers.
    """
    host = host.lower().rstrip(".")
    if host == FUNCTIONS_HOST:
        return Link(free_name(FUNCTIONS_NAME, taken), PYTHON, hosts=(host,), found=True)
    model = _model_at(host)
    if model is not None and scripted:
        name, dialect = model
        return Link(free_name(name, taken), SCRIPTED, dialect, service=name, hosts=(host,), found=True)
    name, dialect = model or (_name_of(host, port), HTTP)
    usual = port == {"http": 80, "https": 443}[scheme]
    authority = str(Address(host, port)).removesuffix(f":{port}") if usual else str(Address(host, port))
    return Link(free_name(name, taken), f"{scheme}://{authority}", dialect, found=True)


def found_name(host: str, port: int) -> str:
    """Return the name of the link that a server gets when it is found, unless it is taken by another."""
    host = host.lower().rstrip(".")
    model = _model_at(host)
    return free_name(model[0] if model else _name_of(host, port), ())


def server_in(text: str) -> tuple[str, int] | None:
    """Return host and port of a server's address or URL; None for a plain word."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    host = parts.hostname or ""
    is_server = "://" in text or parts.port is not None or "." in host or host == "localhost"
    return (host, port) if host and is_server else None


def is_model_host(host: str) -> bool:
    """Return whether the host belongs to a model provider."""
    return _model_at(host) is not None


def _model_at(host: str) -> tuple[str, str] | None:
    for suffix, model in _MODEL_SUFFIXES.items():
        if host.endswith(suffix):
            return model
    return MODEL_HOSTS.get(host)


def _name_of(host: str, port: int) -> str:
    if is_loopback(host):
        return f"port_{port}"
    name = re.sub(r"[^a-z0-9]+", "_", host).strip("_")
    return name if name[:1].isalpha() and name not in _RESERVED_NAMES else f"host_{name}"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, or with a number if it is taken."""
    name = name[:_MAX_NAME_LENGTH]
    number = 1
    chosen = name
    while chosen in taken:
        number += 1
        chosen = f"{name[: _MAX_NAME_LENGTH - len(str(number)) - 1]}_{number}"
    return chosen
