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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from windtunnel.core.sockets import is_loopback
from windtunnel.core.spelling import nearest
from windtunnel.dialects.registry import MODEL_DIALECTS
from windtunnel.links.link import HTTP, LAB, SCRIPTED, Link
from windtunnel.links.links import Links
from windtunnel.links.spec import Spec
from windtunnel.links.subject_spec import SubjectSpec, check_subject
from windtunnel.links.wiring_file import WiringError, WiringFile, read_wiring_file
from windtunnel.links.world_spec import WorldSpec, check_world

MOST_LINKS = 64
# Servers to which a model link may lead without being listed under ``allow``.
PROVIDERS = frozenset(
    ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "api.groq.com")
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALL = re.compile(r"[A-Z]+ /\S*")


class LinkSpec(Spec):
    """One entry of ``links``."""

    upstream: str = Field(description="http(s)://host[:port][/prefix], `scripted` or `lab`")
    dialect: str = Field(
        HTTP, description="what is spoken there: http, or a model's API, for example openai_chat"
    )
    env: str | list[str] = Field(
        default_factory=list, description="the variables in which the subject finds this link's address"
    )
    writes: list[str] = Field(
        default_factory=list, description="calls that change state: METHOD /path, * for any part of a path"
    )
    planted: bool = Field(False, description="whether faults that plant instructions may strike it")
    key: str = Field("", description="the field of a write's JSON body by which a repetition is known")
    port: int = Field(0, ge=0, le=65535, description="where a service of the lab listens")
    tools: dict[str, str] = Field(default_factory=dict, description="names of calls: METHOD /path")
    effects: dict[str, list[str]] = Field(
        default_factory=dict, description="kinds of side effects that a service of the lab records"
    )


class WiringSpec(Spec):
    """A wiring file."""

    links: dict[str, LinkSpec] = Field(min_length=1)
    subject: SubjectSpec | None = None
    world: WorldSpec | None = None
    prompts: str = Field("", description="the prompts file, beside this one")
    allow: list[str] = Field(
        default_factory=list, description="hosts besides this machine and the models' providers"
    )


@dataclass(frozen=True)
class Wiring:
    """A wiring that can be flown.

    ``folder``: paths in it are taken from there; ``file`` its name, if any. ``said`` are the words of the
    command line that give the same wiring again.
    """

    links: Links
    subject: SubjectSpec | None = None
    world: WorldSpec | None = None
    prompts: Path | None = None
    allow: frozenset[str] = frozenset()
    folder: Path = Path()
    file: str = ""
    data: Mapping[str, Any] = field(default_factory=dict, compare=False)
    said: tuple[str, ...] = ()

    @property
    def is_lab(self) -> bool:
        """Whether it is the lab's own: its subject knows what it calls and records it."""
        return self.subject == LAB

    def dump(self) -> dict[str, Any]:
        """As plain JSON, which ``wiring_of`` takes; empty for the lab's own as it ships."""
        if self.is_lab and not self.said:
            return {}
        folder = str(self.folder.resolve())
        return {"file": self.file, "folder": folder, "data": dict(self.data), "said": list(self.said)}


def wiring_of(dumped: Mapping[str, Any]) -> Wiring:
    """From what ``Wiring.dump`` gave, also after its way through JSON. Raises ``WiringError``."""
    wiring = build_wiring(WiringFile(dumped["file"], dumped["data"]), Path(dumped["folder"]))
    return replace(wiring, said=tuple(dumped["said"]))


def load_wiring(path: Path) -> Wiring:
    """Reads the file. Raises ``WiringError`` that names file, line and key."""
    wiring = build_wiring(read_wiring_file(path), path.parent)
    return replace(wiring, said=("--wiring", str(path)))


@lru_cache(maxsize=1)  # a file of this package, which does not change
def lab_wiring() -> Wiring:
    """The wiring of the lab that ships."""
    return replace(load_wiring(Path(__file__).with_name("lab.json")), said=())


def lab_links() -> Links:
    """The links of the lab that ships."""
    return lab_wiring().links


def build_wiring(file: WiringFile, folder: Path) -> Wiring:
    """The same from what was read. Raises ``WiringError``."""
    spec: WiringSpec = file.check(WiringSpec, (), _checked_parts(file))
    if len(spec.links) > MOST_LINKS:
        raise file.error(("links",), f"at most {MOST_LINKS} links, not {len(spec.links)}")
    allowed = frozenset(host.lower() for host in spec.allow)
    links = Links(_link(file, name, link, allowed) for name, link in spec.links.items())
    _check_variables(file, links)
    if spec.world is not None:
        check_world(file, spec.world, allowed)
    prompts = folder / spec.prompts if spec.prompts else None
    if prompts is not None and not prompts.is_file():
        raise file.error(("prompts",), f"there is no file {prompts}")
    return Wiring(links, spec.subject, spec.world, prompts, allowed, folder, file.where, file.data)


def with_links(wiring: Wiring, given: Sequence[str]) -> Wiring:
    """The wiring with links from the command line, ``NAME=URL[,dialect]`` each. Raises ``WiringError``.

    A name that is there already gets the new upstream, and the new dialect if one is given.
    """
    if not given:
        return wiring
    specs: dict[str, Any] = {key: dict(value) for key, value in wiring.data.get("links", {}).items()}
    for text in given:
        name, equals, rest = text.partition("=")
        upstream, _, dialect = rest.partition(",")
        if not equals or not upstream:
            raise WiringError(f"--link {text}: give NAME=URL or NAME=URL,DIALECT")
        specs[name] = {
            **specs.get(name, {}),
            "upstream": upstream,
            **({"dialect": dialect} if dialect else {}),
        }
    file = WiringFile(wiring.file or "--link", {**wiring.data, "links": specs})
    said = (*wiring.said, *(f"--link={text}" for text in given))
    return replace(build_wiring(file, wiring.folder), file=wiring.file, said=said)


def with_subject(wiring: Wiring, command: Sequence[str]) -> Wiring:
    """The wiring with another subject: a process for each attempt. Raises ``WiringError``."""
    data = {**wiring.data, "subject": {"command": list(command)}}
    built = build_wiring(WiringFile(wiring.file or "the command after --", data), wiring.folder)
    return replace(built, file=wiring.file, said=(*wiring.said, "--", *command))


NO_WIRING = Wiring(Links(()))


def _checked_parts(file: WiringFile) -> dict[str, Any]:
    """The data with each part whose errors pydantic would not explain well checked by itself."""
    data = dict(file.data)
    if data.get("subject") is not None:
        data["subject"] = check_subject(file, data["subject"])
    if data.get("world") is not None:
        data["world"] = file.check(WorldSpec, ("world",), data["world"])
    links = data.get("links")
    if isinstance(links, dict):
        data["links"] = {name: file.check(LinkSpec, ("links", name), link) for name, link in links.items()}
    return data


def _link(file: WiringFile, name: str, spec: LinkSpec, allowed: Collection[str]) -> Link:
    at = ("links", name)
    if not _NAME.fullmatch(name):
        raise file.error(at, "a link's name is a small letter, then small letters, digits or _")
    if name in ("tools", "writes", "all"):
        raise file.error(at, f"no link can be called {name}: a fault set means several links by that")
    dialects = (HTTP, *MODEL_DIALECTS)
    if spec.dialect not in dialects:
        raise file.error((*at, "dialect"), f"{spec.dialect!r} is no dialect{nearest(spec.dialect, dialects)}")
    _check_upstream(file, at, spec, allowed)
    variables = [spec.env] if isinstance(spec.env, str) else spec.env
    for variable in variables:
        if not _VARIABLE.fullmatch(variable):
            raise file.error((*at, "env"), f"{variable!r} is no name of a variable")
    _check_calls(file, (*at, "writes"), spec.writes)
    _check_calls(file, (*at, "tools"), list(spec.tools.values()))
    return Link(
        name=name,
        upstream=spec.upstream.rstrip("/"),
        dialect=spec.dialect,
        env=tuple(variables) or (f"{name.upper()}_URL",),
        writes=tuple(spec.writes),
        key=spec.key,
        planted=spec.planted,
        service={LAB: f"{name}_tool", SCRIPTED: name}.get(spec.upstream, ""),
        port=spec.port,
        tools=tuple((tool, *call.split(" ", 1)) for tool, call in spec.tools.items()),  # type: ignore[misc]
        effects={kind: tuple(fields) for kind, fields in spec.effects.items()},
    )


def _check_calls(file: WiringFile, at: tuple[str | int, ...], calls: Sequence[str]) -> None:
    for index, call in enumerate(calls):
        if not _CALL.fullmatch(call):
            raise file.error(
                (*at, index), f"{call!r} is no call: write METHOD /path, for example POST /orders"
            )


def _check_upstream(
    file: WiringFile, at: tuple[str | int, ...], spec: LinkSpec, allowed: Collection[str]
) -> None:
    at, upstream = (*at, "upstream"), spec.upstream
    if upstream == SCRIPTED:
        if spec.dialect == HTTP:
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
    if not is_loopback(host) and host not in allowed and not (spec.dialect != HTTP and host in PROVIDERS):
        raise file.error(
            at, f"{host} is not this machine: to break what leads there, list it: allow: [{host}]"
        )


def _is_address(parts: SplitResult) -> bool:
    try:
        valid = parts.port != 0
    except ValueError:  # no number, or too large a one
        return False
    web = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    return bool(valid and web)


def _check_variables(file: WiringFile, links: Links) -> None:
    by_variable: dict[str, str] = {}
    for link in links:
        for variable in link.env:
            other = by_variable.setdefault(variable, link.name)
            if other != link.name:
                raise file.error(
                    ("links", link.name, "env"), f"{variable} is the variable of the link {other} already"
                )
