"""The fault set in force at the gateway: brought there from ``state.db`` when one was set on the lab."""

from __future__ import annotations

import logging

from proxy_manager.gateway_control import FaultsRefused, GatewayControl
from windtunnel.state.configurations import ConfigurationRow, Configurations
from windtunnel.state.state import AttemptRow, RunRow

log = logging.getLogger("proxy_manager")


class FaultsInForce:
    """Of one lane. ``read`` comes first in each step. Raises ``GatewayError``, ``sqlite3.Error``."""

    def __init__(
        self, configurations: Configurations, gateway: GatewayControl, lab_id: str, lane: int
    ) -> None:
        self._configurations = configurations
        self._gateway = gateway
        self._lab = (lab_id, lane)
        self._latest: ConfigurationRow | None = None
        self._told: tuple[str, int] | None = None  # run and configuration, as the gateway has them
        self._since: tuple[tuple[str, int], str] | None = None

    def read(self) -> None:
        self._latest = self._configurations.latest(*self._lab)

    @property
    def number(self) -> int:
        """Of the faults set last, 0 where none were."""
        return self._latest.number if self._latest else 0

    def since(self, run_id: str | None) -> str | None:
        """Where in that run they came into force, None if they have not."""
        if self._since is None or self._since[0] != (run_id, self.number):
            return None
        return self._since[1]

    def forget(self) -> None:
        """The gateway may be another one now."""
        self._told = None

    def tell(self, attempt: AttemptRow, run: RunRow) -> None:
        """Has the gateway take those that were set since the run began, unless it has them."""
        latest = self._latest
        if latest is None or latest.created < run.created or self._told == (run.run_id, latest.number):
            return
        try:
            self._gateway.set_faults(attempt, latest.number, latest.faults)
        except FaultsRefused as error:
            log.warning("configuration %d refused: %s", latest.number, error)
            self._configurations.refuse(latest, str(error))
            self.read()
            return
        self._told = (run.run_id, latest.number)
        if self._since is None or self._since[0] != self._told:
            place = f"run {run.run_id}, prompt {attempt.episode}, attempt {attempt.attempt}"
            self._since = (self._told, place)
