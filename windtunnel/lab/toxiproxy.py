"""Which Toxiproxy the lab flies with: one at a URL, one on ``PATH``, or the embedded one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import requests

from windtunnel.core.sockets import LOOPBACK, Address
from windtunnel.settings.settings import SettingsError

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


def answers(url: str) -> bool:
    """Whether a Toxiproxy answers there."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return bool(session.get(f"{url}/version", timeout=2).json()["version"])
        except (requests.RequestException, ValueError, KeyError, TypeError):
            return False


def _checked(url: str, where: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise SettingsError(f"{where}={url!r}: give auto, embedded, or a URL such as http://127.0.0.1:8474")
    if parts.hostname not in (LOOPBACK, "localhost"):
        raise SettingsError(
            f"{where}={url!r}: a native lab listens on loopback only, so its Toxiproxy must run there too"
        )
    return url.rstrip("/")


# A server that was started with our configuration is known by a proxy of it that never listens.


def write_mark(path: Path, name: str) -> None:
    mark = {"name": name, "listen": f"{LOOPBACK}:0", "upstream": f"{LOOPBACK}:1", "enabled": False}
    path.write_text(json.dumps([mark]), encoding="utf-8")


def command(executable: str, address: Address, mark: Path) -> Sequence[str]:
    return [executable, "-host", address.host, "-port", str(address.port), "-config", str(mark)]


def has_mark(url: str, name: str) -> bool | None:
    """Whether the server that answers there is ours (its mark is then removed); None if none answers."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            marked = name in session.get(f"{url}/proxies", timeout=2).json()
            if marked:
                session.delete(f"{url}/proxies/{name}", timeout=2)
        except requests.ConnectionError:
            return None
        except (requests.RequestException, ValueError, TypeError):
            return False  # something answers, which is no Toxiproxy
    return marked
