"""Open links that the ingress requests: listener, proxy, and the toxics of the attempt in progress."""

from __future__ import annotations

from msgspec.structs import replace

from proxy_manager import log
from proxy_manager.gateway_control import GatewayError
from proxy_manager.lane import LaneParts, calls_with_changes, toxics_at_start
from wirefault.core.sockets import Address
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import LinkOpened
from wirefault.settings.episode_faults import plan_attempt
from wirefault.settings.settings import load_frozen
from wirefault.state.state import AttemptRow, RunRow
from wirefault.state.tables import ConfigurationRow, FoundLink
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link


class LinksOnDemand:
    """The found links of one lane. Raises ``sqlite3.Error``, ``OSError``."""

    def __init__(self, parts: LaneParts) -> None:
        self._parts = parts

    def restore(self) -> None:
        """Reopen links that were found earlier, since gateway and proxies may have changed.

        A link that cannot be opened waits for the next request of the ingress. Raises ``ToxiproxyError``.
        """
        for row in self._rows("open"):
            try:
                gateway, proxy = self._listen(row.link)
                self._parts.state.found_links.mark_open(
                    *self._parts.lab, row.link.name, str(gateway), str(proxy)
                )
            except GatewayError as error:
                self._parts.state.found_links.mark_failed(*self._parts.lab, row.link.name, str(error))

    def open_wanted(
        self, attempt: AttemptRow | None, run: RunRow | None, latest: ConfigurationRow | None
    ) -> bool:
        """Open the requested links with the attempt's toxics; return whether any was requested.

        ``latest``: the lab's latest fault set, or None.
        """
        wanted = self._rows("wanted")
        for row in wanted:
            try:
                self._open(row.link, attempt, run, latest)
            except (GatewayError, ToxiproxyError, ValueError) as error:
                log.warning("the link %s could not be opened: %s", row.link.name, error)
                self._parts.state.found_links.mark_failed(*self._parts.lab, row.link.name, str(error))
        return bool(wanted)

    def _rows(self, status: str) -> list[FoundLink]:
        return [row for row in self._parts.state.found_links.rows(*self._parts.lab) if row.status == status]

    def _open(
        self, link: Link, attempt: AttemptRow | None, run: RunRow | None, latest: ConfigurationRow | None
    ) -> None:
        gateway, proxy = self._listen(link)
        opened = LinkOpened(self._parts.clock(), "", 0, link, [])
        if attempt is not None and run is not None:
            plan = self._plan(link, attempt, run, latest)
            self._parts.state.toxics.add(attempt.id, plan)
            self._start_toxics(attempt, plan)
            self._parts.state.toxics.mark_armed(attempt.id, self._parts.clock())
            opened = replace(opened, episode=attempt.episode, attempt=attempt.attempt, toxics=plan)
        if run is not None:
            self._parts.history.write(run.run_id, opened)
        self._parts.state.found_links.mark_open(*self._parts.lab, link.name, str(gateway), str(proxy))

    def _start_toxics(self, attempt: AttemptRow, plan: list[PlannedToxic]) -> None:
        """Set the new link's toxics for this time, and record toxics that begin within the attempt."""
        outages, begun = self._parts.outages, self._parts.clock()
        outages.add(plan)
        if changes := calls_with_changes(plan):
            self._parts.gateway.expect_changes(attempt, changes)
        change = outages.take_change()
        observed = self._parts.proxies.apply(outages.in_force)
        if change is not None and (change.ended or change.started != toxics_at_start(plan)):
            self._parts.history.record_change(attempt, observed, change, begun)

    def _listen(self, link: Link) -> tuple[Address, Address]:
        """Open the link's gateway listener and proxy; return their addresses."""
        gateway = self._parts.gateway.open_link(self._parts.lab[1], link)
        return gateway, self._parts.proxies.add(link, gateway)

    def _plan(
        self, link: Link, attempt: AttemptRow, run: RunRow, latest: ConfigurationRow | None
    ) -> list[PlannedToxic]:
        """Return the attempt's toxics for this link, as if the link had existed from the start."""
        settings = load_frozen(run.settings)
        number, faults, level = 0, settings.faults, settings.chaos_level
        if latest is not None and latest.created >= run.created:
            number, faults, level = latest.number, latest.faults, 1.0
        entries = read_canonical(faults, level).on(self._parts.proxies.links).toxics
        tools = [] if link.is_model else [link.name]
        plan = plan_attempt(settings, tools, attempt.episode, attempt.attempt, entries, number)
        return [toxic for toxic in plan if toxic.link == link.name]
