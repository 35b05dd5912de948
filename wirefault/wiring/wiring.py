"""The wiring: which links a subject has, what it is, what its world is and which prompts it gets.

    links:
      model: {upstream: https://api.openai.com/v1, dialect: openai_chat, env: OPENAI_BASE_URL}
      shop:  {upstream: http://127.0.0.1:9000, env: SHOP_URL, writes: [POST /orders, "DELETE /orders/*"]}
    subject: {command: [python, my_agent.py, "{prompt}"]}
    prompts: prompts.json

``load_wiring`` reads a file; the lab's own wiring, ``lab.json``, is one like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from wirefault.core.errors import InputError, nearest
from wirefault.wiring.intercept_spec import InterceptSpec, check_intercept
from wirefault.wiring.lab import LAB_WIRING, lab_links
from wirefault.wiring.link import LAB
from wirefault.wiring.link_spec import LinkSpec, link_of
from wirefault.wiring.links import Links
from wirefault.wiring.spec import Spec
from wirefault.wiring.spec_file import SpecFile, read_spec_file
from wirefault.wiring.subject_spec import SubjectSpec, check_subject
from wirefault.wiring.world_spec import WorldSpec, check_world

MOST_LINKS = 64


class WiringSpec(Spec):
    """A wiring file."""

    links: dict[str, LinkSpec] = Field(default_factory=dict)
    intercept: InterceptSpec | None = None
    subject: SubjectSpec | None = None
    world: WorldSpec | None = None
    prompts: str = Field("", description="the prompts file, beside this one")
    allow: list[str] = Field(
        default_factory=list, description="hosts besides this machine and the models' providers"
    )


@dataclass(frozen=True)
class Wiring:
    """A wiring that can be flown.

    ``intercept``: how the connections of its subject are caught, None where they are not.
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
    intercept: InterceptSpec | None = None

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
    """From what ``Wiring.dump`` gave, also after its way through JSON. Raises ``InputError``."""
    wiring = build_wiring(SpecFile(dumped["file"], dumped["data"]), Path(dumped["folder"]))
    return replace(wiring, said=tuple(dumped["said"]))


def load_wiring(path: Path) -> Wiring:
    """Reads the file. Raises ``InputError`` that names file, line and key."""
    wiring = build_wiring(read_spec_file(path), path.parent)
    return replace(wiring, said=("--wiring", str(path)))


@lru_cache(maxsize=1)  # a file of this package, which does not change
def lab_wiring() -> Wiring:
    """The wiring of the lab that ships."""
    return _built(read_spec_file(LAB_WIRING), LAB_WIRING.parent)


def build_wiring(file: SpecFile, folder: Path) -> Wiring:
    """The same from what was read. Raises ``InputError``."""
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
        raise file.error(("links",), "there is no link: name one, or say intercept: {} to find them")
    if len(spec.links) > MOST_LINKS:
        raise file.error(("links",), f"at most {MOST_LINKS} links, not {len(spec.links)}")
    allowed = frozenset(host.lower() for host in spec.allow)
    named = (link_of(file, name, link, allowed) for name, link in spec.links.items())
    links = Links(named, grows=spec.intercept is not None)
    _check_variables(file, links)
    if spec.world is not None:
        check_world(file, spec.world, allowed)
    prompts = folder / spec.prompts if spec.prompts else None
    if prompts is not None and not prompts.is_file():
        raise file.error(("prompts",), f"there is no file {prompts}")
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


def with_links(wiring: Wiring, given: Sequence[str]) -> Wiring:
    """The wiring with links from the command line, ``NAME=URL[,dialect]`` each. Raises ``InputError``.

    A name that is there already gets the new upstream, and the new dialect if one is given.
    """
    if not given:
        return wiring
    specs: dict[str, Any] = {key: dict(value) for key, value in wiring.data.get("links", {}).items()}
    for text in given:
        name, equals, rest = text.partition("=")
        upstream, _, dialect = rest.partition(",")
        if not equals or not upstream:
            raise InputError(f"--link {text}: give NAME=URL or NAME=URL,DIALECT")
        specs[name] = {
            **specs.get(name, {}),
            "upstream": upstream,
            **({"dialect": dialect} if dialect else {}),
        }
    file = SpecFile(wiring.file or "--link", {**wiring.data, "links": specs})
    said = (*wiring.said, *(f"--link={text}" for text in given))
    return replace(build_wiring(file, wiring.folder), file=wiring.file, said=said)


def with_subject(wiring: Wiring, command: Sequence[str]) -> Wiring:
    """The wiring with another subject: a process for each attempt. Raises ``InputError``."""
    data = {**wiring.data, "subject": {"command": list(command)}}
    built = build_wiring(SpecFile(wiring.file or "the command after --", data), wiring.folder)
    return replace(built, file=wiring.file, said=(*wiring.said, "--", *command))


def with_intercept(wiring: Wiring, given: Mapping[str, Any]) -> Wiring:
    """The wiring with the connections of its subject caught, as the key ``intercept`` would say it.

    Raises ``InputError``.
    """
    file = SpecFile(wiring.file or "wirefault exec", {**wiring.data, "intercept": dict(given)})
    return replace(build_wiring(file, wiring.folder), file=wiring.file, said=wiring.said)


NO_WIRING = Wiring(Links(()))


def _checked_parts(file: SpecFile) -> dict[str, Any]:
    """The data with each part whose errors pydantic would not explain well checked by itself."""
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
                raise file.error(
                    ("links", link.name, "env"), f"{variable} is the variable of the link {other} already"
                )
