"""The lab's Toxiproxy: choose the server (URL, ``PATH`` or embedded), mark it, and verify the rollback."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import requests

from wirefault.core.errors import InputError
from wirefault.core.sockets import LOOPBACK, Address
from wirefault.settings.settings import SettingsError
from wirefault.state.state import State
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.planned import VERIFIED
from wirefault.wiring.topology import Topology

_EXECUTABLE = "toxiproxy-server"


@dataclass(frozen=True)
class Choice:
    """``url`` of a running server, or ``executable`` to start."""

    kind: Literal["url", "executable", "embedded"]
    url: str = ""
    executable: str = ""

    def __str__(self) -> str:
        return {"url": self.url, "executable": self.executable, "embedded": "embedded"}[self.kind]


def choose_toxiproxy(requested: str, environ: Mapping[str, str]) -> Choice:
    """``requested`` is ``auto``, ``embedded`` or a URL. Raises ``SettingsError`` for anything else."""
    if requested == "embedded":
        return Choice("embedded")
    if requested != "auto":
        return Choice("url", _checked(requested, "--toxiproxy"))
    if environ.get("TOXIPROXY_URL"):
        return Choice("url", _checked(environ["TOXIPROXY_URL"], "TOXIPROXY_URL"))
    executable = shutil.which(_EXECUTABLE, path=environ.get("PATH"))
    return Choice("executable", executable=executable) if executable else Choice("embedded")


def toxiproxy_answers(url: str) -> bool:
    """Whether a Toxiproxy answers at that URL."""
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


def write_mark(path: Path, name: str) -> None:
    """Write the configuration for a new server: one proxy that never listens, as a mark."""
    mark = {"name": name, "listen": f"{LOOPBACK}:0", "upstream": f"{LOOPBACK}:1", "enabled": False}
    path.write_text(json.dumps([mark]), encoding="utf-8")


def server_command(executable: str, address: Address, mark: Path) -> Sequence[str]:
    return [executable, "-host", address.host, "-port", str(address.port), "-config", str(mark)]


def has_mark(url: str, name: str) -> bool | None:
    """Whether the server at that URL has our mark, which is then removed; None without an answer."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            marked = name in session.get(f"{url}/proxies", timeout=2).json()
            if marked:
                session.delete(f"{url}/proxies/{name}", timeout=2)
        except requests.ConnectionError:
            return None
        except (requests.RequestException, ValueError, TypeError):
            return False  # not a Toxiproxy
    return marked


# a manager heals for a killed run once the heartbeat is 2 s old
_BOUND_S = 8.0
_POLL_S = 0.1


def verify_rollback(
    lanes: Sequence[Topology],
    state: Path,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """``verified``, or why toxics of the lab may be left."""
    end = clock() + _BOUND_S
    while (problem := _left(lanes, state)) and clock() < end:
        sleep(_POLL_S)
    return problem or VERIFIED


def _left(lanes: Sequence[Topology], state: Path) -> str:
    try:
        store = State(state)
        try:
            desired = sum(store.toxics.left(lane.lab_id, lane.lane) for lane in lanes)
        finally:
            store.close()
        with ToxiproxyClient(lanes[0].toxiproxy) as toxiproxy:
            proxies = toxiproxy.proxies()
    except (sqlite3.Error, InputError, ToxiproxyError) as error:
        return f"not verified: {error}"
    names = {lane.proxy_name(link) for lane in lanes for link in lane.links.names}
    observed = [toxic.name for name in names & proxies.keys() for toxic in proxies[name].toxics]
    if desired or observed:
        return f"not verified: {desired} toxics desired, {len(observed)} observed"
    return ""
