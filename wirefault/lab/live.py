"""Fault sets and handoffs of a running lab, through its manager's HTTP API."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

from wirefault.core.control_access import bearer, inherited_token
from wirefault.core.errors import UserError
from wirefault.core.lab_folder import is_lab_up
from wirefault.core.sockets import MANAGER_PORT, Address
from wirefault.settings.configuration import running_lab
from wirefault.wiring.links import Links

_TIMEOUT_S = 30.0  # the manager waits for gateway and Toxiproxy, which a busy machine slows down


class LiveFaultsError(UserError):
    """The lab did not answer or refused; the message says what to do."""


class LiveFaultsClient:
    """A client of the manager at that address, for the lab with that ``state`` folder. Raises
    ``LiveFaultsError``.

    ``links`` are the lab's, which a fault set may name. ``token``: the lab's, looked for if empty.
    """

    def __init__(self, manager: Address, state: Path, links: Links, token: str = "") -> None:
        self.links = links
        self.address = manager.url
        self._url = manager.url + "/faults"
        self._state = state
        self._token = token

    @property
    def of_this_folder(self) -> bool:
        """Whether a lab of ``wirefault lab up`` uses the folder."""
        return running_lab(self._state) is not None

    def set(self, faults: str, source: str) -> dict[str, Any]:
        """Set the canonical fault set; returns once it is in force, or known not to be."""
        return self._call("PUT", {"faults": json.loads(faults), "source": source})

    def clear(self) -> dict[str, Any]:
        return self._call("DELETE", {})

    def status(self) -> dict[str, Any]:
        return self._call("GET", None)

    def _call(self, method: str, body: dict[str, Any] | None) -> dict[str, Any]:
        token = "" if body is None else self._token or lab_token(self._state, os.environ)
        content = _call_manager(method, self._url, body, token)
        if "number" not in content:
            raise LiveFaultsError(f"the server at {self._url} is not a lab's manager")
        return content


class HandoffsClient:
    """A client of the manager's queue of handoffs, as ``LiveFaultsClient``."""

    def __init__(self, manager: Address, state: Path, token: str = "") -> None:
        self._url = manager.url + "/handoffs"
        self._token = token or lab_token(state, os.environ)

    @property
    def page(self) -> str:
        """The address of the page; its fragment, which no server receives, is the lab's token."""
        return f"{self._url}/page#{self._token}"

    def cases(self) -> list[dict[str, Any]]:
        content = _call_manager("GET", self._url, None, self._token)
        return [case for case in content.get("handoffs", []) if isinstance(case, dict)]

    def decide(self, id: int, decision: str) -> dict[str, Any]:
        return _call_manager("POST", f"{self._url}/{id}/{decision}", {}, self._token)


def _call_manager(method: str, url: str, body: dict[str, Any] | None, token: str) -> dict[str, Any]:
    """Return the manager's answer; ``token`` is sent unless it is empty."""
    with requests.Session() as session:
        session.trust_env = False
        headers = bearer(token) if token else {}
        try:
            answer = session.request(method, url, json=body, headers=headers, timeout=_TIMEOUT_S)
            content = answer.json()
        except requests.ReadTimeout:
            raise LiveFaultsError(f"the lab at {url} has not answered for {_TIMEOUT_S:g} s") from None
        except (requests.RequestException, ValueError):
            raise LiveFaultsError(f"no lab answers at {url}; start one: wirefault lab up") from None
    if answer.status_code == 401:
        raise LiveFaultsError(
            f"the lab at {url} does not know this folder's token: it was started from"
            " another folder; go there, or start one here: wirefault lab up"
        )
    if answer.status_code >= 400:
        raise LiveFaultsError(_message(content, answer.status_code))
    if not isinstance(content, dict):
        raise LiveFaultsError(f"the server at {url} is not a lab's manager")
    return content


_COMPOSE_BOUND_S = 20.0


def lab_token(state: Path, environ: Mapping[str, str]) -> str:
    """Return the token of the lab with that ``state`` folder; empty if none is up.

    ``lab up`` keeps it in the user's private folder. In Compose it is on a volume, and anyone who can enter
    the manager's container can read it.
    """
    record = running_lab(state)
    if record is not None:
        return str(record.get("token", ""))
    with suppress(ValueError, OSError):
        return inherited_token(environ)
    return _ask_compose("exec", "-T", "proxy_mgr", "cat", "/run/wirefault/token")


def published_manager(state: Path) -> Address | None:
    """Return where Compose publishes the manager of this folder's lab; None if it is not up, or if a lab of
    ``lab up`` has that ``state`` folder.
    """
    if is_lab_up(state):
        return None
    try:
        return Address.parse(_ask_compose("port", "proxy_mgr", str(MANAGER_PORT)))
    except ValueError:
        return None


def _ask_compose(*words: str) -> str:
    """Return the output of a Compose command on the lab of this folder; empty if it fails."""
    if not Path("docker-compose.yaml").exists():
        return ""
    for command in (("docker", "compose"), ("docker-compose",)):
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [*command, *words], capture_output=True, text=True, timeout=_COMPOSE_BOUND_S, check=False
            )
            if done.returncode == 0:
                return done.stdout.strip()
    return ""


def _message(content: Any, status: int) -> str:
    try:
        return str(content["error"]["message"])
    except (KeyError, TypeError):
        return f"the manager answered with status {status}"
