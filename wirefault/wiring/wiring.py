"""The wiring: which links a subject has, what it is, what its world is and which prompts it gets.

    links:
      model: {upstream: https://api.openai.com/v1, dialect: openai_chat, env: OPENAI_BASE_URL}
      shop:  {upstream: http://127.0.0.1:9000, env: SHOP_URL, writes: [POST /orders, "DELETE /orders/*"]}
    subject: {command: [python, my_agent.py, "{prompt}"]}
    prompts: prompts.json

``load_wiring`` reads a file; the lab's own wiring, ``lab.json``, is one like any other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from wirefault.core.errors import InputError, nearest
from wirefault.core.sockets import is_this_machine
from wirefault.dialects.mcp import MCP
from wirefault.dialects.realtime import REALTIME
from wirefault.dialects.registry import MODEL_DIALECTS, is_model_api
from wirefault.wiring.links import (
    HTTP,
    LAB,
    LAB_WIRING,
    PYTHON,
    SCRIPTED,
    STDIO,
    Link,
    Links,
    is_model_host,
    lab_links,
)
from wirefault.wiring.spec_file import Place, Spec, SpecFile, read_spec_file
from wirefault.wiring.subject_spec import CommandSpec, SubjectSpec, check_subject
from wirefault.wiring.world_spec import WorldSpec, check_world

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]")
_PORT = re.compile(r":[0-9]{1,5}")


class InterceptSpec(Spec):
    """The key ``intercept``. A host is ``name``, ``*.name`` or either with ``:port``."""

    tap: Literal["auto", "namespace", "proxy"] = Field(
        "auto",
        description="how connections are intercepted; auto: a network namespace if the system supports it",
    )
    only: list[str] = Field(default_factory=list, description="hosts to intercept; all others pass unchanged")
    pass_: list[str] = Field(default_factory=list, alias="pass", description="hosts that pass unchanged")
    refuse: list[str] = Field(default_factory=list, description="hosts that cannot be reached")
    models: Literal["own", "scripted"] = Field(
        "own", description="the model that answers for model providers: their own, or the scripted model"
    )
    offline: bool = Field(False, description="allow connections only to this machine and wired upstreams")


def check_hosts(file: SpecFile, at: tuple[str | int, ...], hosts: list[str]) -> None:
    """Raise ``InputError`` for an invalid host."""
    for index, host in enumerate(hosts):
        port = _PORT.search(host)
        name = host[: port.start()] if port and port.end() == len(host) else host
        if not _HOST.fullmatch(name):
            raise file.error((*at, index), f"{host!r} is not a host: write name, *.name or name:port")


def check_intercept(file: SpecFile, data: object) -> InterceptSpec:
    """Validate the wiring file's key. Raises ``InputError`` that names file, line and key."""
    spec: InterceptSpec = file.check(InterceptSpec, ("intercept",), {} if data is True else data)
    for key, hosts in (("only", spec.only), ("pass", spec.pass_), ("refuse", spec.refuse)):
        check_hosts(file, ("intercept", key), hosts)
    return spec


_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL = re.compile(r"[A-Z]+ /\S*")
_WRITE = re.compile(r"[A-Z]+ /\S*(?: \S+)?")  # with the operation of a path that serves several


class McpSpec(Spec):
    """An MCP server over stdio, which the subject starts."""

    command: list[str] = Field(
        default_factory=list,
        description="its program and arguments; default: those in the subject's configuration",
    )


class LinkSpec(Spec):
    """One entry of ``links``."""

    upstream: str = Field(
        "",
        description="http(s)://host[:port][/prefix], `scripted`, `lab`, or `python` for functions of a Python"
        " subject",
    )
    mcp: McpSpec | None = Field(None, description="an MCP server over stdio, instead of an upstream")
    dialect: str = Field(
        HTTP, description="the API spoken there: http, mcp, or a model's, for example openai_chat"
    )
    env: str | list[str] = Field(
        default_factory=list, description="the variables that give the subject this link's address"
    )
    writes: list[str] = Field(
        default_factory=list,
        description="calls that change state: METHOD /path, METHOD /path OPERATION (JSON-RPC, GraphQL, AWS),"
        " on links of MCP and functions a name; * for any part; [] if none does",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="hosts whose intercepted calls use this link; default: the upstream's",
    )
    planted: bool = Field(False, description="whether faults that plant instructions may act on it")
    key: str = Field("", description="the field of a write's JSON body that identifies a repetition")
    port: int = Field(0, ge=0, le=65535, description="where a service of the lab listens")
    tools: dict[str, str] = Field(default_factory=dict, description="names of calls: METHOD /path")
    effects: dict[str, list[str]] = Field(
        default_factory=dict, description="kinds of side effects that a service of the lab records"
    )


def build_link(file: SpecFile, name: str, spec: LinkSpec, allowed: Collection[str]) -> Link:
    at = ("links", name)
    if not _NAME.fullmatch(name):
        raise file.error(at, "a link's name must be a small letter, then small letters, digits or _")
    if name in ("tools", "writes", "all"):
        raise file.error(at, f"the name {name} is reserved: fault sets use it for several links")
    dialects = (HTTP, MCP.name, *MODEL_DIALECTS, REALTIME.name)
    if spec.dialect not in dialects:
        raise file.error(
            (*at, "dialect"), f"unknown dialect {spec.dialect!r}{nearest(spec.dialect, dialects)}"
        )
    if spec.mcp is None:
        _check_upstream(file, at, spec, allowed)
    else:
        spec = _over_stdio(file, at, spec, spec.mcp)
    variables = [spec.env] if isinstance(spec.env, str) else spec.env
    for variable in variables:
        if not _VARIABLE.fullmatch(variable):
            raise file.error((*at, "env"), f"{variable!r} is not a valid variable name")
    check_hosts(file, (*at, "hosts"), spec.hosts)
    if spec.dialect != MCP.name and spec.upstream != PYTHON:
        _check_calls(file, (*at, "writes"), spec.writes)
    elif spec.tools:
        raise file.error((*at, "tools"), "an MCP server names its tools itself: leave them out")
    _check_calls(file, (*at, "tools"), list(spec.tools.values()))
    return Link.of_entry(name, spec.model_dump(exclude_unset=True))


def _over_stdio(file: SpecFile, at: Place, spec: LinkSpec, mcp: McpSpec) -> LinkSpec:
    if spec.upstream:
        raise file.error((*at, "upstream"), "a link must have either an upstream or mcp, not both")
    if spec.dialect not in (HTTP, MCP.name):
        raise file.error((*at, "dialect"), "the dialect of an MCP server is always mcp: leave it out")
    if mcp.command[:1] == [""]:
        raise file.error((*at, "mcp", "command"), "its first word, the program, must not be empty")
    return spec.model_copy(update={"upstream": STDIO, "dialect": MCP.name})


def _check_calls(file: SpecFile, at: Place, calls: Sequence[str]) -> None:
    form = _WRITE if at[-1] == "writes" else _CALL
    for index, call in enumerate(calls):
        if not form.fullmatch(call):
            raise file.error(
                (*at, index), f"{call!r} is not a call: write METHOD /path, for example POST /orders"
            )


def _check_upstream(file: SpecFile, at: Place, spec: LinkSpec, allowed: Collection[str]) -> None:
    if not spec.upstream:
        raise file.error(at, "missing upstream: set one, or mcp for an MCP server over stdio")
    at, upstream = (*at, "upstream"), spec.upstream
    if upstream == SCRIPTED:
        if spec.dialect not in MODEL_DIALECTS:
            raise file.error(at, "the scripted model needs a model link: set its dialect")
        return
    if upstream == LAB:
        return
    if upstream == PYTHON:
        if spec.dialect != HTTP:
            raise file.error((*at[:-1], "dialect"), "functions have no dialect: leave it out")
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
        websocket = " (a WebSocket begins as a request of HTTP)" if parts.scheme in ("ws", "wss") else ""
        raise file.error(
            at, f"{upstream!r} is not an address: write http://host:port or https://host/prefix{websocket}"
        )
    if "@" in parts.netloc:
        raise file.error(at, "must not contain a user or password, since reports show it")
    host = str(parts.hostname).lower()
    of_provider = is_model_api(spec.dialect) and is_model_host(host)
    if not is_this_machine(host) and host not in allowed and not of_provider:
        raise file.error(at, f"{host} is not this machine: to inject faults there, list it: allow: [{host}]")


MAX_LINKS = 64


class WiringSpec(Spec):
    """A wiring file."""

    links: dict[str, LinkSpec] = Field(default_factory=dict)
    intercept: InterceptSpec | None = None
    subject: SubjectSpec | None = None
    world: WorldSpec | None = None
    prompts: str = Field("", description="the prompts file, relative to this one")
    allow: list[str] = Field(
        default_factory=list, description="hosts besides this machine and the model providers"
    )


@dataclass(frozen=True)
class Wiring:
    """A checked wiring."""

    links: Links
    subject: SubjectSpec | None = None
    world: WorldSpec | None = None
    prompts: Path | None = None
    allow: frozenset[str] = frozenset()
    folder: Path = Path()  # base of relative paths
    file: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, compare=False)
    arguments: tuple[str, ...] = ()  # words of the command line that give the same wiring
    intercept: InterceptSpec | None = None  # None: connections are not intercepted

    @property
    def is_lab(self) -> bool:
        """Return whether it is the lab's own wiring, whose subject records its calls itself."""
        return self.subject == LAB

    def dump(self) -> dict[str, Any]:
        """Return plain JSON, which ``dumped_wiring`` can read; empty for the lab's own as it ships."""
        if self.is_lab and not self.arguments:
            return {}
        folder = str(self.folder.resolve())
        return {
            "file": self.file,
            "folder": folder,
            "data": dict(self.data),
            "arguments": list(self.arguments),
        }


def dumped_wiring(dumped: Mapping[str, Any]) -> Wiring:
    """Load the result of ``Wiring.dump``, also after a round trip through JSON. Raises ``InputError``."""
    if not dumped:
        return lab_wiring()
    wiring = build_wiring(SpecFile(dumped["file"], dumped["data"]), Path(dumped["folder"]))
    return replace(wiring, arguments=tuple(dumped["arguments"]))


def load_wiring(path: Path) -> Wiring:
    """Read the file. Raises ``InputError`` that names file, line and key."""
    wiring = build_wiring(read_spec_file(path), path.parent)
    return replace(wiring, arguments=(str(path),))


def is_wiring_file(path: Path) -> bool:
    """Return whether the file is a wiring, not an experiment. Raises ``InputError`` if it cannot be read."""
    return names_links(read_spec_file(path).data)


def names_links(data: Mapping[str, Any]) -> bool:
    """Return whether these are the keys of a wiring, not of an experiment."""
    return "title" not in data and not data.keys().isdisjoint(("links", "intercept", "subject", "world"))


@lru_cache(maxsize=1)  # a file of this package, which does not change
def lab_wiring() -> Wiring:
    """Return the wiring of the lab that ships."""
    return _built(read_spec_file(LAB_WIRING), LAB_WIRING.parent)


def build_wiring(file: SpecFile, folder: Path) -> Wiring:
    """Build a wiring from parsed data. Raises ``InputError``."""
    wiring = _built(file, folder)
    services = [link.name for link in lab_links() if link.upstream == LAB]
    for link in wiring.links:
        if link.upstream == LAB and link.name not in services:
            problem = f"the lab has no service for {link.name!r}{nearest(link.name, services)}"
            raise file.error(("links", link.name, "upstream"), problem)
    return wiring


def _built(file: SpecFile, folder: Path) -> Wiring:
    spec: WiringSpec = file.check(WiringSpec, (), _checked_parts(file))
    if not spec.links and spec.intercept is None:
        raise file.error(("links",), "missing links: name one, or write intercept: {} to find them")
    if len(spec.links) > MAX_LINKS:
        raise file.error(("links",), f"must have at most {MAX_LINKS} links, not {len(spec.links)}")
    allowed = frozenset(host.lower() for host in spec.allow)
    named = (build_link(file, name, link, allowed) for name, link in spec.links.items())
    links = Links(named, grows=spec.intercept is not None)
    _check_variables(file, links)
    if spec.world is not None:
        check_world(file, spec.world, allowed)
    prompts = folder / spec.prompts if spec.prompts else None
    if prompts is not None and not prompts.is_file():
        raise file.error(("prompts",), f"cannot find the file {prompts}")
    return Wiring(
        links,
        spec.subject,
        spec.world,
        prompts,
        allowed,
        folder,
        file.where,
        file.data,
        intercept=spec.intercept,
    )


def with_links(wiring: Wiring, entries: Sequence[str]) -> Wiring:
    """Return the wiring with links from the command line, ``NAME=URL[,dialect]`` each. Raises ``InputError``.

    An existing link of that name gets the new upstream, and the new dialect if there is one.
    """
    if not entries:
        return wiring
    specs: dict[str, Any] = {key: dict(value) for key, value in wiring.data.get("links", {}).items()}
    for text in entries:
        name, equals, rest = text.partition("=")
        upstream, _, dialect = rest.partition(",")
        if not equals or not upstream:
            raise InputError(f"--link {text}: write NAME=URL or NAME=URL,DIALECT")
        specs[name] = {
            **specs.get(name, {}),
            "upstream": upstream,
            **({"dialect": dialect} if dialect else {}),
        }
    file = SpecFile(wiring.file or "--link", {**wiring.data, "links": specs})
    arguments = (*wiring.arguments, *(f"--link={text}" for text in entries))
    return replace(build_wiring(file, wiring.folder), file=wiring.file, arguments=arguments)


def with_subject(wiring: Wiring, command: Sequence[str]) -> Wiring:
    """Return the wiring with another subject, one process per attempt. Raises ``InputError``."""
    data = {**wiring.data, "subject": {"command": list(command)}}
    built = build_wiring(SpecFile(wiring.file or "the command after --", data), wiring.folder)
    return replace(built, file=wiring.file, arguments=(*wiring.arguments, "--", *command))


NO_WIRING = Wiring(Links(()))


def _checked_parts(file: SpecFile) -> dict[str, Any]:
    """Return the data, with the parts checked first whose errors pydantic would not explain well."""
    data = dict(file.data)
    if data.get("subject") is not None:
        data["subject"] = check_subject(file, data["subject"])
    if data.get("world") is not None:
        data["world"] = file.check(WorldSpec, ("world",), data["world"])
    if data.get("intercept") is not None:
        data["intercept"] = check_intercept(file, data["intercept"])
    links = data.get("links")
    if isinstance(links, dict):
        data["links"] = {name: file.check(LinkSpec, ("links", name), link) for name, link in links.items()}
    return data


def _check_variables(file: SpecFile, links: Links) -> None:
    by_variable: dict[str, str] = {}
    for link in links:
        for variable in link.env:
            other = by_variable.setdefault(variable, link.name)
            if other != link.name:
                raise file.error(("links", link.name, "env"), f"the link {other} uses {variable} already")


_HEAD = """# The servers that this command called, as links. To run it: wirefault run FILE{options}
# Add `writes` where a call changes state: then a write that is executed twice is proven, not guessed.
"""


def recorded_wiring(
    links: Iterable[Link],
    intercept: Mapping[str, Any],
    command: CommandSpec,
    *,
    prompts: str = "",
    texts: Sequence[str] = (),
) -> str:
    """Return the text of the file.

    ``intercept`` and ``prompts`` are the values of these keys; ``texts`` are prompts of the command line,
    which a wiring cannot hold.
    """
    links = list(links)
    hosts = {host for link in links if (host := urlsplit(link.upstream).hostname)}
    allowed = sorted(host for host in hosts if not is_this_machine(host) and not is_model_host(host))
    wiring = {
        "links": {link.name: _entry(link) for link in links},
        "intercept": dict(intercept),
        "subject": command.model_dump(exclude_defaults=True, by_alias=True),
        **({"prompts": prompts} if prompts else {}),
        **({"allow": allowed} if allowed else {}),
    }
    from wirefault.core.yaml_text import dump_yaml  # PyYAML is slow to import

    options = "".join(f" --prompt {shlex.quote(' '.join(text.split()))}" for text in texts)
    return _HEAD.format(options=options) + dump_yaml(wiring)


def _entry(link: Link) -> dict[str, Any]:
    entry: dict[str, Any] = {"upstream": link.upstream}
    if link.is_stdio:
        entry = {"mcp": {"command": list(link.command)} if link.command else {}}
    elif link.dialect != HTTP:
        entry["dialect"] = link.dialect
    if link.hosts:
        entry["hosts"] = list(link.hosts)
    if link.writes_declared:
        entry["writes"] = list(link.writes)
    return entry
