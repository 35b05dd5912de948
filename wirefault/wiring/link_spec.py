"""One entry of a wiring's ``links``, and the link that it makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from pydantic import Field

from wirefault.core.errors import nearest
from wirefault.core.sockets import is_loopback
from wirefault.dialects.mcp import MCP
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.wiring.found import is_model_host
from wirefault.wiring.intercept_spec import check_hosts
from wirefault.wiring.link import HTTP, LAB, SCRIPTED, STDIO, Link
from wirefault.wiring.spec import Spec
from wirefault.wiring.spec_file import Place, SpecFile

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL = re.compile(r"[A-Z]+ /\S*")


class McpSpec(Spec):
    """An MCP server over stdio, which the subject starts."""

    command: list[str] = Field(
        default_factory=list,
        description="its program and arguments; without it the subject's configuration names them",
    )


class LinkSpec(Spec):
    """One entry of ``links``."""

    upstream: str = Field("", description="http(s)://host[:port][/prefix], `scripted` or `lab`")
    mcp: McpSpec | None = Field(None, description="an MCP server over stdio, in the place of an upstream")
    dialect: str = Field(
        HTTP, description="what is spoken there: http, mcp, or a model's API, for example openai_chat"
    )
    env: str | list[str] = Field(
        default_factory=list, description="the variables in which the subject finds this link's address"
    )
    writes: list[str] = Field(
        default_factory=list,
        description="calls that change state: METHOD /path, on a link of MCP a tool's name; * for any part",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="hosts whose intercepted calls go this way; default: the upstream's",
    )
    planted: bool = Field(False, description="whether faults that plant instructions may strike it")
    key: str = Field("", description="the field of a write's JSON body by which a repetition is known")
    port: int = Field(0, ge=0, le=65535, description="where a service of the lab listens")
    tools: dict[str, str] = Field(default_factory=dict, description="names of calls: METHOD /path")
    effects: dict[str, list[str]] = Field(
        default_factory=dict, description="kinds of side effects that a service of the lab records"
    )


def link_of(file: SpecFile, name: str, spec: LinkSpec, allowed: Collection[str]) -> Link:
    at = ("links", name)
    if not _NAME.fullmatch(name):
        raise file.error(at, "a link's name is a small letter, then small letters, digits or _")
    if name in ("tools", "writes", "all"):
        raise file.error(at, f"no link can be called {name}: a fault set means several links by that")
    dialects = (HTTP, MCP.name, *MODEL_DIALECTS)
    if spec.dialect not in dialects:
        raise file.error((*at, "dialect"), f"{spec.dialect!r} is no dialect{nearest(spec.dialect, dialects)}")
    if spec.mcp is None:
        _check_upstream(file, at, spec, allowed)
    else:
        spec = _over_stdio(file, at, spec, spec.mcp)
    variables = [spec.env] if isinstance(spec.env, str) else spec.env
    for variable in variables:
        if not _VARIABLE.fullmatch(variable):
            raise file.error((*at, "env"), f"{variable!r} is no name of a variable")
    check_hosts(file, (*at, "hosts"), spec.hosts)
    if spec.dialect != MCP.name:
        _check_calls(file, (*at, "writes"), spec.writes)
    elif spec.tools:
        raise file.error((*at, "tools"), "a server of MCP names its tools itself: leave them out")
    _check_calls(file, (*at, "tools"), list(spec.tools.values()))
    return Link.of_entry(name, spec.model_dump())


def _over_stdio(file: SpecFile, at: Place, spec: LinkSpec, mcp: McpSpec) -> LinkSpec:
    if spec.upstream:
        raise file.error((*at, "upstream"), "a link has an upstream or mcp, not both")
    if spec.dialect not in (HTTP, MCP.name):
        raise file.error((*at, "dialect"), "what is spoken to an MCP server is mcp: leave it out")
    if mcp.command[:1] == [""]:
        raise file.error((*at, "mcp", "command"), "its first word is the program, and is empty")
    return spec.model_copy(update={"upstream": STDIO, "dialect": MCP.name})


def _check_calls(file: SpecFile, at: Place, calls: Sequence[str]) -> None:
    for index, call in enumerate(calls):
        if not _CALL.fullmatch(call):
            raise file.error(
                (*at, index), f"{call!r} is no call: write METHOD /path, for example POST /orders"
            )


def _check_upstream(file: SpecFile, at: Place, spec: LinkSpec, allowed: Collection[str]) -> None:
    if not spec.upstream:
        raise file.error(at, "upstream is missing: give one, or mcp for an MCP server over stdio")
    at, upstream = (*at, "upstream"), spec.upstream
    if upstream == SCRIPTED:
        if spec.dialect not in MODEL_DIALECTS:
            raise file.error(at, "the scripted model is behind a model link: give its dialect")
        return
    if upstream == LAB:
        return
    parts = urlsplit(upstream)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or port == -1
        or parts.query
        or parts.fragment
    ):
        raise file.error(at, f"{upstream!r} is no address: write http://host:port or https://host/prefix")
    if "@" in parts.netloc:
        raise file.error(at, "must hold no user and no password, since reports show it")
    host = str(parts.hostname).lower()
    of_provider = spec.dialect in MODEL_DIALECTS and is_model_host(host)
    if not is_loopback(host) and host not in allowed and not of_provider:
        raise file.error(
            at, f"{host} is not this machine: to break what leads there, list it: allow: [{host}]"
        )
