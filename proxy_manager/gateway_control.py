"""The manager's side of the gateway's control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import requests

from wirefault.core.sockets import Address
from wirefault.state.state import AttemptRow
from wirefault.wiring.link import Link

_TIMEOUT_S = 2.0


class GatewayError(Exception):
    """The gateway did not answer or refused; the message says which."""


class FaultsRefused(GatewayError):
    """The gateway refused these faults; the message says why."""


class GatewayControl:
    """Speaks to one gateway over a kept-alive connection, and to the ingress before it, where there is one.

    Raises ``GatewayError``.
    """

    def __init__(self, address: Address, ingress: Address | None = None) -> None:
        self._url = address.url
        self._ingress = ingress
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        self._session.close()

    def begin(self, attempt: AttemptRow, settings_hash: str) -> None:
        """Connections accepted from now on belong to that attempt."""
        body = {
            "run_id": attempt.run_id,
            "episode": attempt.episode,
            "attempt": attempt.attempt,
            "settings_hash": settings_hash,
        }
        self._call("PUT", f"/lanes/{attempt.lane}", body, _TIMEOUT_S)

    def set_faults(self, attempt: AttemptRow, number: int, faults: str) -> None:
        """Puts the set in force from the attempt's next request on. Raises ``FaultsRefused`` too."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "number": number, "faults": faults}
        self._call("PUT", f"/lanes/{attempt.lane}/faults", body, _TIMEOUT_S)

    def expect_changes(self, attempt: AttemptRow, changes: Mapping[str, Sequence[int]]) -> None:
        """Has the gateway hold these calls of each link until they are released."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "changes": changes}
        self._call("PUT", f"/lanes/{attempt.lane}/calls", body, _TIMEOUT_S)

    def release(self, attempt: AttemptRow, link: str, call: int) -> None:
        """The toxics are as that call is to meet them."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "link": link, "call": call}
        self._call("POST", f"/lanes/{attempt.lane}/calls", body, _TIMEOUT_S)

    def begin_turn(self, attempt: AttemptRow) -> None:
        """What comes from now on is of the user's turn that the attempt asks for."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "turn": attempt.turn}
        self._call("PUT", f"/lanes/{attempt.lane}/turn", body, _TIMEOUT_S)

    def open_link(self, lane: int, link: Link) -> Address:
        """Has the gateway listen for a link that was found; where it does."""
        path = f"/lanes/{lane}/links/{link.name}"
        return Address.parse(str(self._call("PUT", path, {"link": link.dump()}, _TIMEOUT_S)["listen"]))

    def settle(self, attempt: AttemptRow, bound_s: float) -> bool:
        """Waits until the attempt has no open connection, then ends it; False if some were left."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "bound_s": bound_s}
        answer = self._call("POST", f"/lanes/{attempt.lane}/settle", body, bound_s + _TIMEOUT_S)
        if self._ingress is not None:
            # the gateway has closed what was open: now the ingress has its records of that on the disk
            with suppress(requests.RequestException):  # an ingress that is lost ends the lab by itself
                self._session.post(f"{self._ingress.url}/settle", timeout=_TIMEOUT_S)
        return bool(answer["settled"])

    def _send(self, method: str, path: str, body: dict[str, Any], timeout_s: float) -> requests.Response:
        """Sends the request again if the connection broke: the gateway may just have closed an idle one.

        Each of the calls may be repeated: the second time it changes nothing.
        """
        try:
            return self._session.request(method, self._url + path, json=body, timeout=timeout_s)
        except requests.ConnectionError:
            return self._session.request(method, self._url + path, json=body, timeout=timeout_s)

    def _call(self, method: str, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        try:
            reply = self._send(method, path, body, timeout_s)
            answer = reply.json()
        except (requests.RequestException, ValueError) as error:
            raise GatewayError(f"the gateway at {self._url} does not answer: {error}") from None
        if reply.status_code >= 400:
            error_body = answer.get("error") if isinstance(answer, dict) else None
            if isinstance(error_body, dict) and error_body.get("code") == "faults_refused":
                raise FaultsRefused(str(error_body.get("message")))
            raise GatewayError(f"the gateway refused {method} {path}: {answer}")
        if not isinstance(answer, dict):
            raise GatewayError(f"the gateway answered {method} {path} with {type(answer).__name__}")
        return answer
