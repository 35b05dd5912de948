"""Opens the links that the front asks for: listener, proxy, and the toxics of the attempt in progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from proxy_manager import log
from proxy_manager.gateway_control import GatewayControl, GatewayError
from proxy_manager.manager_history import ManagerHistory
from proxy_manager.proxies import LaneProxies
from windtunnel.core.sockets import Address
from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.history.events import LinkOpened
from windtunnel.links.link import Link
from windtunnel.settings.settings import load_frozen
from windtunnel.settings.toxic_plan import plan_attempt
from windtunnel.state.configurations import ConfigurationRow
from windtunnel.state.found_links import FoundLink
from windtunnel.state.state import AttemptRow, RunRow, State
from windtunnel.toxiproxy.answers import ToxiproxyError
from windtunnel.toxiproxy.planned import PlannedToxic


class LinksOnDemand:
    """Those of one lane. ``clock`` gives seconds since the epoch.

    Raises ``sqlite3.Error``, ``OSError``.
    """

    def __init__(
        self,
        state: State,
        proxies: LaneProxies,
        gateway: GatewayControl,
        history: ManagerHistory,
        lab: tuple[str, int],
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._proxies = proxies
        self._gateway = gateway
        self._history = history
        self._lab = lab
        self._clock = clock

    def restore(self) -> None:
        """Opens the links again that were found before; gateway and proxies may be others than then.

        What cannot be opened waits until the front wants it again. Raises ``ToxiproxyError``.
        """
        for row in self._rows("open"):
            try:
                gateway, proxy = self._listen(row.link)
                self._state.found_links.mark_open(*self._lab, row.link.name, str(gateway), str(proxy))
            except GatewayError as error:
                self._state.found_links.mark_failed(*self._lab, row.link.name, str(error))

    def open_wanted(
        self, attempt: AttemptRow | None, run: RunRow | None, latest: ConfigurationRow | None
    ) -> bool:
        """Opens what is wanted, with the toxics that the attempt draws; whether anything was opened.

        ``latest``: the fault set that was set on the lab since the run began, if one was.
        """
        wanted = self._rows("wanted")
        for row in wanted:
            try:
                self._open(row.link, attempt, run, latest)
            except (GatewayError, ToxiproxyError, ValueError) as error:
                log.warning("the link %s could not be opened: %s", row.link.name, error)
                self._state.found_links.mark_failed(*self._lab, row.link.name, str(error))
        return bool(wanted)

    def _rows(self, status: str) -> list[FoundLink]:
        return [row for row in self._state.found_links.rows(*self._lab) if row.status == status]

    def _open(
        self, link: Link, attempt: AttemptRow | None, run: RunRow | None, latest: ConfigurationRow | None
    ) -> None:
        gateway, proxy = self._listen(link)
        opened = LinkOpened(self._clock(), "", 0, link.dump(), [])
        if attempt is not None and run is not None:
            plan = self._plan(link, attempt, run, latest)
            self._state.toxics.add(attempt.id, plan)
            self._proxies.apply(self._state.toxics.desired(attempt.id))
            self._state.toxics.mark_armed(attempt.id, self._clock())
            opened = replace(opened, episode=attempt.episode, attempt=attempt.attempt, toxics=plan)
        if run is not None:
            self._history.write(run.run_id, opened)
        self._state.found_links.mark_open(*self._lab, link.name, str(gateway), str(proxy))

    def _listen(self, link: Link) -> tuple[Address, Address]:
        """Where the gateway listens for it, and the address at which its proxy is dialled."""
        gateway = self._gateway.open_link(self._lab[1], link)
        return gateway, self._proxies.add(link, gateway)

    def _plan(
        self, link: Link, attempt: AttemptRow, run: RunRow, latest: ConfigurationRow | None
    ) -> list[PlannedToxic]:
        """What the attempt's draws say for this link: the same as if it had been there from the start."""
        settings = load_frozen(run.settings)
        number, faults, level = 0, settings.faults, settings.chaos_level
        if latest is not None and latest.created >= run.created:
            number, faults, level = latest.number, latest.faults, 1.0
        entries = read_canonical(faults, level).on(self._proxies.links).toxics
        tools = [] if link.is_model else [link.name]
        plan = plan_attempt(settings, tools, attempt.episode, attempt.attempt, entries, number)
        return [toxic for toxic in plan if toxic.link == link.name]
