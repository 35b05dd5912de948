"""The manager's side of the gateway's control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import requests
from msgspec import to_builtins

from proxy_manager import log
from wirefault.core.control_access import bearer
from wirefault.core.sockets import Address
from wirefault.state.state import AttemptRow, RunRow
from wirefault.state.tables import ConfigurationRow, Configurations
from wirefault.wiring.links import Link

_TIMEOUT_S = 2.0


class GatewayError(Exception):
    """The gateway did not reply, or refused the request."""


class FaultsRefused(GatewayError):
    """The gateway refused the faults; the message has the reason."""


class GatewayControl:
    """Control one gateway over a kept-alive connection, and the ingress in front of it, if there is one.

    Raises ``GatewayError``.
    """

    def __init__(self, address: Address, token: str, ingress: Address | None = None) -> None:
        self._url = address.url
        self._ingress = ingress
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(bearer(token))

    def close(self) -> None:
        self._session.close()

    def begin(self, attempt: AttemptRow, settings_hash: str) -> None:
        """Assign connections accepted from now on to that attempt."""
        body = {
            "run_id": attempt.run_id,
            "episode": attempt.episode,
            "attempt": attempt.attempt,
            "settings_hash": settings_hash,
        }
        self._call("PUT", f"/lanes/{attempt.lane}", body, _TIMEOUT_S)

    def set_faults(self, attempt: AttemptRow, number: int, faults: str) -> None:
        """Put the set in force from the attempt's next request on. Raises ``FaultsRefused`` too."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "number": number, "faults": faults}
        self._call("PUT", f"/lanes/{attempt.lane}/faults", body, _TIMEOUT_S)

    def expect_changes(self, attempt: AttemptRow, changes: Mapping[str, Sequence[int]]) -> None:
        """Make the gateway hold these calls of each link until they are released."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "changes": changes}
        self._call("PUT", f"/lanes/{attempt.lane}/calls", body, _TIMEOUT_S)

    def release(self, attempt: AttemptRow, link: str, call: int) -> None:
        """Release a call whose toxics are set."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "link": link, "call": call}
        self._call("POST", f"/lanes/{attempt.lane}/calls", body, _TIMEOUT_S)

    def begin_turn(self, attempt: AttemptRow) -> None:
        """Assign requests from now on to the attempt's current turn."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "turn": attempt.turn}
        self._call("PUT", f"/lanes/{attempt.lane}/turn", body, _TIMEOUT_S)

    def open_link(self, lane: int, link: Link) -> Address:
        """Make the gateway listen for a found link, and return its address."""
        path = f"/lanes/{lane}/links/{link.name}"
        return Address.parse(str(self._call("PUT", path, {"link": to_builtins(link)}, _TIMEOUT_S)["listen"]))

    def settle(self, attempt: AttemptRow, bound_s: float) -> bool:
        """Wait until the attempt has no open connection, then end it; False if some are still open."""
        body = {"episode": attempt.episode, "attempt": attempt.attempt, "bound_s": bound_s}
        answer = self._call("POST", f"/lanes/{attempt.lane}/settle", body, bound_s + _TIMEOUT_S)
        if self._ingress is not None:
            # the gateway has closed all connections, so the ingress has written its records of them
            with suppress(requests.RequestException):  # a lost ingress ends the lab anyway
                self._session.post(f"{self._ingress.url}/settle", timeout=_TIMEOUT_S)
        return bool(answer["settled"])

    def _send(self, method: str, path: str, body: dict[str, Any], timeout_s: float) -> requests.Response:
        """Send the request; repeat it if the connection broke, since the gateway may have closed an idle one.

        All calls are idempotent.
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
            raise GatewayError(f"no reply from the gateway at {self._url}: {error}") from None
        if reply.status_code >= 400:
            error_body = answer.get("error") if isinstance(answer, dict) else None
            if isinstance(error_body, dict) and error_body.get("code") == "faults_refused":
                raise FaultsRefused(str(error_body.get("message")))
            raise GatewayError(f"the gateway refused {method} {path}: {answer}")
        if not isinstance(answer, dict):
            raise GatewayError(f"the gateway replied to {method} {path} with {type(answer).__name__}")
        return answer


class GatewayFaults:
    """Fault sets of one lane. Call ``read`` at each step. Raises ``GatewayError``, ``sqlite3.Error``."""

    def __init__(
        self, configurations: Configurations, gateway: GatewayControl, lab_id: str, lane: int
    ) -> None:
        self._configurations = configurations
        self._gateway = gateway
        self._lab = (lab_id, lane)
        self._latest: ConfigurationRow | None = None
        self._sent: tuple[str, int] | None = None  # run and number of the configuration at the gateway
        self._since: tuple[tuple[str, int], str] | None = None  # and where it came into force, in words

    def read(self) -> None:
        """Read the latest configuration."""
        self._latest = self._configurations.latest(*self._lab)

    @property
    def latest(self) -> ConfigurationRow | None:
        """The latest configuration; None if there is none."""
        return self._latest

    @property
    def number(self) -> int:
        """Number of the latest configuration; 0 if there is none."""
        return self._latest.number if self._latest else 0

    def since(self, run_id: str | None) -> str | None:
        """Return where in the run the gateway got the latest configuration; None if it has not."""
        if self._since is None or self._since[0] != (run_id, self.number):
            return None
        return self._since[1]

    def forget(self) -> None:
        """Send the configuration again with the next attempt: the gateway may have been restarted."""
        self._sent = None

    def send(self, attempt: AttemptRow, run: RunRow) -> None:
        """Send the gateway the latest configuration set since the run began, unless it already has it."""
        latest = self._latest
        if latest is None or latest.created < run.created or self._sent == (run.run_id, latest.number):
            return
        try:
            self._gateway.set_faults(attempt, latest.number, latest.faults)
        except FaultsRefused as error:
            log.warning("configuration %d refused: %s", latest.number, error)
            self._configurations.refuse(latest, str(error))
            self.read()
            return
        self._sent = (run.run_id, latest.number)
        if self._since is None or self._since[0] != self._sent:
            place = f"run {run.run_id}, prompt {attempt.episode}, attempt {attempt.attempt}"
            if run.status == "live":
                place = "now"
            self._since = (self._sent, place)
