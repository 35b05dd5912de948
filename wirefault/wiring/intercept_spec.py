"""``intercept``: what becomes of the connections that a subject opens, wherever their addresses come from."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from wirefault.wiring.spec import Spec
from wirefault.wiring.spec_file import SpecFile

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]")
_PORT = re.compile(r":[0-9]{1,5}")


class InterceptSpec(Spec):
    """The key ``intercept``. A host is ``name``, ``*.name`` or either with ``:port``."""

    tap: Literal["auto", "namespace", "proxy"] = Field(
        "auto", description="how connections are caught; auto: a network namespace where the system has them"
    )
    only: list[str] = Field(default_factory=list, description="hosts to intercept; all others pass untouched")
    pass_: list[str] = Field(default_factory=list, alias="pass", description="hosts that pass untouched")
    refuse: list[str] = Field(default_factory=list, description="hosts that cannot be reached")
    models: Literal["own", "scripted"] = Field(
        "own", description="who answers for the models' providers: they themselves, or the scripted model"
    )
    offline: bool = Field(False, description="nothing is dialled but this machine and wired upstreams")


def check_hosts(file: SpecFile, at: tuple[str | int, ...], hosts: list[str]) -> None:
    """Raises ``InputError`` for what is no host."""
    for index, host in enumerate(hosts):
        port = _PORT.search(host)
        name = host[: port.start()] if port and port.end() == len(host) else host
        if not _HOST.fullmatch(name):
            raise file.error((*at, index), f"{host!r} is no host: write name, *.name or name:port")


def check_intercept(file: SpecFile, data: object) -> InterceptSpec:
    """From the wiring file's key. Raises ``InputError`` that names file, line and key."""
    spec: InterceptSpec = file.check(InterceptSpec, ("intercept",), {} if data is True else data)
    for key, hosts in (("only", spec.only), ("pass", spec.pass_), ("refuse", spec.refuse)):
        check_hosts(file, ("intercept", key), hosts)
    return spec
