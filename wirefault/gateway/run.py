"""A run that has a lane: its settings, its history, and the faults that its requests may meet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from wirefault.faults.matching.matcher import FaultMatcher
from wirefault.faults.sets.canonical import read_canonical
from wirefault.faults.sets.fault_set import Entry, FaultSet
from wirefault.gateway.budgets.keeper import BudgetKeeper, Charge, Spender
from wirefault.gateway.chance_errors import chance_errors
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.shadows import Shadows
from wirefault.gateway.struck_calls import StruckCall, StruckCalls
from wirefault.history.events import Event, FaultsSet
from wirefault.history.writer import Writer, dump_line
from wirefault.settings.settings import Settings
from wirefault.settings.toxic_plan import plan_attempt
from wirefault.wiring.link import Link
from wirefault.wiring.links import Links


class ForeignLink(ValueError):
    """A fault set that would do to somebody else's server what is allowed only with the lab's own."""


class Run:
    """A run that has the lane: its frozen settings, its history, and the faults that its requests may meet.

    ``matcher`` holds the armed faults, ``configuration`` their number: 0 for the run's own settings. Raises
    ``ForeignLink``. ``shadows`` are evaluated only to be recorded, None if the settings name none. ``model``
    stands in the place of the scripted model, None where the settings name no other; ``budgets`` counts what
    its requests take, None where nothing is limited. ``began``: its start, on the clock of ``perf_counter``.
    """

    def __init__(
        self,
        run_id: str,
        settings: Settings,
        writer: Writer,
        model: Endpoint | None,
        links: Links,
        budgets: BudgetKeeper | None = None,
    ) -> None:
        self.run_id = run_id
        self._links = links
        self.settings = settings
        self.settings_hash = settings.hash
        self.keeps_bodies = settings.bodies != "off"
        self.model = model
        self.budgets = budgets
        self._faults = read_canonical(settings.faults, settings.chaos_level)
        self.matcher = self._armed_with(self._faults)
        self.configuration = 0
        self.shadows = Shadows(settings, links) if settings.shadow else None
        self.failure = ""
        self._writer = writer
        self._unwritten: list[str] = []
        self._struck = StruckCalls(settings)
        self.began = time.perf_counter()

    def may_strike(self, episode: str, call: StruckCall) -> bool:
        """Whether the blast radius holds that call of the episode; if so, it counts as struck from now on."""
        return self._struck.may_strike(episode, call)

    def configure(self, number: int, faults: FaultSet, episode: str, attempt: int) -> None:
        """Arms another fault set; counts start anew, tries under way keep what was decided for them.

        Recorded in the history as of that attempt, unless that configuration is in force already. Raises
        ``ForeignLink``: then nothing has changed.
        """
        if number == self.configuration:
            return
        self.matcher, self.configuration = self._armed_with(faults), number
        self._faults = faults
        self.record(FaultsSet(time.time(), episode, attempt, number, faults.dump(), faults.ids))

    def add_link(self, link: Link) -> None:
        """Arms the faults in force on a link that was found. Raises ``ForeignLink``: then nothing changed."""
        before, self._links = self._links, self._links.adding([link])
        try:
            entries = self._entries(self._faults)
        except ForeignLink:
            self._links = before
            raise
        self.matcher.add_link(link.name, entries)
        if self.shadows is not None:
            self.shadows.add_link(link.name, self._links)

    def toxic_links(self, episode: str, attempt: int) -> frozenset[str]:
        """The links on which the run's own plan has a toxic in that attempt."""
        if not (self.settings.toxic_prob or self._faults.toxics):
            return frozenset()
        links = self._links
        entries = self._faults.on(links).toxics
        plan = plan_attempt(self.settings, links.tool_names, episode, attempt, entries, 0)
        return frozenset(toxic.link for toxic in plan)

    def _armed_with(self, faults: FaultSet) -> FaultMatcher:
        return FaultMatcher(self.settings.seed, self._entries(faults))

    def _entries(self, faults: FaultSet) -> list[Entry]:
        """What may strike the links as they are now, in the order of the set."""
        entries = [*chance_errors(self.settings, self._links.tool_names), *faults.on(self._links).faults]
        for entry in entries:
            foreign = [name for name in entry.links if entry.fault.lab_only and self._is_foreign(name)]
            if foreign:
                raise ForeignLink(
                    f"the fault {entry.id} is for the lab's own servers only, and the one behind the link"
                    f" {foreign[0]} is not one of them: leave that link out of its links, or let its wiring"
                    " say planted: true"
                )
        return entries

    def _is_foreign(self, name: str) -> bool:
        link = self._links[name]
        if link.takes_model and self.model is not None:
            return not self.model.is_lab
        return not (link.is_of_lab or link.planted)

    def admit(self, spender: Spender) -> tuple[Sequence[Entry], Charge | None]:
        """What the run's budgets do to a request, and its charge if they let it through."""
        try:
            return self.budgets.admit(spender, self.record) if self.budgets is not None else ((), None)
        except OSError as error:
            self.failure = self.failure or f"the run's budget cannot be kept: {error}"
            return (), None

    def settle_charge(self, charge: Charge, *, answered: bool) -> None:
        """A request that was let through is over. ``answered``: a model may have worked on it."""
        try:
            charge.settle(answered=answered, tell=self.record)
        except OSError as error:
            self.failure = self.failure or f"the run's budget cannot be kept: {error}"

    def record(self, event: Event) -> None:
        """Appends an event to the history, as ``write`` does."""
        self.write(dump_line(event))

    def write(self, line: str) -> None:
        """Appends to the history: in this turn of the loop, with all else that it has to write.

        A process that is killed outright loses at most that turn's, whose replies may have gone out.
        """
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append(line)

    def flush(self) -> None:
        """Writes now. What cannot be written is kept as ``failure``: the lane is then unfit.

        Nothing is written after that: it would go on the line that was cut, and spoil what is there.
        """
        lines, self._unwritten = self._unwritten, []
        if not lines or self.failure:
            return
        try:
            self._writer.write_lines(lines)
        except OSError as error:
            self.failure = f"the history cannot be written: {error}"

    def close(self) -> None:
        self.flush()
        self._writer.close()
