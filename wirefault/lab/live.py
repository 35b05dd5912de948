"""Fault sets of a running lab, through its manager's HTTP API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests

from wirefault.core.errors import UserError
from wirefault.core.sockets import Address
from wirefault.settings.configuration import running_lab
from wirefault.state.state_files import TOKEN_FILE, read_token
from wirefault.wiring.links import Links

_TIMEOUT_S = 10.0


class LiveFaultsError(UserError):
    """The lab did not answer or refused; the message says what to do."""


class LiveFaultsClient:
    """A client of the manager at that address; its token is in the folder ``state``. Raises
    ``LiveFaultsError``.

    ``links`` are the lab's, which a fault set may name.
    """

    def __init__(self, manager: Address, state: Path, links: Links) -> None:
        self.links = links
        self.address = manager.url
        self._url = manager.url + "/faults"
        self._token = state / TOKEN_FILE

    @property
    def of_this_folder(self) -> bool:
        """Whether a lab of ``wirefault lab up`` uses the token's folder."""
        return running_lab(self._token.parent) is not None

    def set(self, faults: str, source: str) -> dict[str, Any]:
        """Set the canonical fault set; returns once it is in force, or known not to be."""
        return self._call("PUT", {"faults": json.loads(faults), "source": source})

    def clear(self) -> dict[str, Any]:
        return self._call("DELETE", {})

    def status(self) -> dict[str, Any]:
        return self._call("GET", None)

    def _call(self, method: str, body: dict[str, Any] | None) -> dict[str, Any]:
        headers = {} if body is None else {"Authorization": f"Bearer {self._read_token()}"}
        with requests.Session() as session:
            session.trust_env = False
            try:
                answer = session.request(method, self._url, json=body, headers=headers, timeout=_TIMEOUT_S)
                content = answer.json()
            except (requests.RequestException, ValueError):
                raise LiveFaultsError(f"no lab answers at {self._url}; start one: wirefault lab up") from None
        if answer.status_code == 401:
            raise LiveFaultsError(
                f"the lab at {self._url} does not know the token in {self._token}: it was started from"
                " another folder; go there, or start one here: wirefault lab up"
            )
        if answer.status_code >= 400:
            raise LiveFaultsError(_message(content, answer.status_code))
        if not isinstance(content, dict) or "number" not in content:
            raise LiveFaultsError(f"what answers at {self._url} is no lab's manager")
        return content

    def _read_token(self) -> str:
        try:
            return read_token(self._token.parent)
        except FileNotFoundError:
            raise LiveFaultsError(
                f"{self._token} is not there: no lab is up; start one: wirefault lab up"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise LiveFaultsError(f"{self._token} cannot be read: {error}") from None


def _message(content: Any, status: int) -> str:
    try:
        return str(content["error"]["message"])
    except (KeyError, TypeError):
        return f"the manager answered with status {status}"
