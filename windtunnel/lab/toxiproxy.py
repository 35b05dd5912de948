"""Which Toxiproxy the lab flies with: one at a URL, one on ``PATH``, or the embedded one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from windtunnel.settings import SettingsError
from windtunnel.topology import LOOPBACK

EXECUTABLE = "toxiproxy-server"


@dataclass(frozen=True)
class Choice:
    """``url`` for a server that runs already, ``executable`` for one to start."""

    kind: Literal["url", "executable", "embedded"]
    url: str = ""
    executable: str = ""

    def __str__(self) -> str:
        return {"url": self.url, "executable": self.executable, "embedded": "embedded"}[self.kind]


def choose(wanted: str, environ: Mapping[str, str]) -> Choice:
    """``wanted`` is ``auto``, ``embedded`` or a URL. Raises ``SettingsError`` for anything else."""
    if wanted == "embedded":
        return Choice("embedded")
    if wanted != "auto":
        return Choice("url", _checked(wanted, "--toxiproxy"))
    if environ.get("TOXIPROXY_URL"):
        return Choice("url", _checked(environ["TOXIPROXY_URL"], "TOXIPROXY_URL"))
    found = shutil.which(EXECUTABLE, path=environ.get("PATH"))
    return Choice("executable", executable=found) if found else Choice("embedded")


def _checked(url: str, where: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsError(f"{where}={url!r}: give auto, embedded, or a URL such as http://127.0.0.1:8474")
    if parts.hostname not in (LOOPBACK, "localhost"):
        raise SettingsError(
            f"{where}={url!r}: a native lab listens on loopback only, so its Toxiproxy must run there too"
        )
    return url.rstrip("/")
