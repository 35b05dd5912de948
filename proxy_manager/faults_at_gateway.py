"""The fault set that the gateway has: sent there from ``state.db`` when one was set on the lab."""

from __future__ import annotations

from proxy_manager import log
from proxy_manager.gateway_control import FaultsRefused, GatewayControl
from wirefault.state.configurations import ConfigurationRow, Configurations
from wirefault.state.state import AttemptRow, RunRow


class FaultsAtGateway:
    """Those of one lane. Call ``read`` first in each step. Raises ``GatewayError``, ``sqlite3.Error``."""

    def __init__(
        self, configurations: Configurations, gateway: GatewayControl, lab_id: str, lane: int
    ) -> None:
        self._configurations = configurations
        self._gateway = gateway
        self._lab = (lab_id, lane)
        self._latest: ConfigurationRow | None = None
        self._sent: tuple[str, int] | None = None  # run and number of the configuration at the gateway
        self._since: tuple[tuple[str, int], str] | None = None  # since when it is there, in words

    def read(self) -> None:
        """Reads which configuration was set last."""
        self._latest = self._configurations.latest(*self._lab)

    @property
    def latest(self) -> ConfigurationRow | None:
        """The configuration that was set last; None where none was."""
        return self._latest

    @property
    def number(self) -> int:
        """The number of the configuration that was set last; 0 where none was."""
        return self._latest.number if self._latest else 0

    def since(self, run_id: str | None) -> str | None:
        """Where in that run the gateway got the last configuration; None if it has not."""
        if self._since is None or self._since[0] != (run_id, self.number):
            return None
        return self._since[1]

    def forget(self) -> None:
        """Sends the configuration again with the next attempt: the gateway may have been restarted."""
        self._sent = None

    def send(self, attempt: AttemptRow, run: RunRow) -> None:
        """Sends the gateway the configuration that was set since the run began, unless it has it."""
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
