"""A run that has a lane: its settings, its history, and the faults that its requests may meet."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from wirefault.faults.catalogue.http.errors import HttpError
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.plan import plan_try
from wirefault.faults.sets.fault_set import Entry, FaultSet
from wirefault.faults.sets.presets import read_canonical
from wirefault.gateway.budgets.enforcer import BudgetKeeper, Charge, Spender
from wirefault.gateway.endpoint import Endpoint
from wirefault.history.events import Event, FaultsSet, ShadowMet
from wirefault.history.writer import Writer, dump_line
from wirefault.settings.blast_radius import is_spared
from wirefault.settings.settings import Settings
from wirefault.settings.shadow import shadows_of
from wirefault.settings.toxic_plan import plan_attempt
from wirefault.wiring.links import Link, Links


def chance_errors(settings: Settings, tools: tuple[str, ...]) -> list[Entry]:
    """Those of ``ERROR_PROB`` on the tool links. Without an id, so that their draws are the schedule's."""
    fault = HttpError(chance=settings.error_prob, retry_after=settings.retry_after)
    return [Entry(fault, tools)] if settings.error_prob else []


# of one episode: attempt, link, fingerprint, and the number of the call among those that ask for the same
StruckCall = tuple[int, str, str, int]


class StruckCalls:
    """The calls that were struck so far, by episode, against what the settings allow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._struck: defaultdict[str, set[StruckCall]] = defaultdict(set)

    def may_strike(self, episode: str, call: StruckCall) -> bool:
        """Whether the blast radius holds that call of the episode; if so, it counts as struck from now on."""
        if is_spared(self._settings, episode):
            return False
        struck, most = self._struck[episode], self._settings.fault_calls
        if most and call not in struck and len(struck) >= most:
            return False
        struck.add(call)
        return True


class Shadows:
    """Those of one run, whose settings name the arms."""

    def __init__(self, settings: Settings, links: Links) -> None:
        self._settings = shadows_of(settings)
        self._matchers = {
            arm: FaultMatcher(striking.seed, _entries(striking, links))
            for arm, striking in self._settings.items()
        }
        self._struck = {arm: StruckCalls(striking) for arm, striking in self._settings.items()}

    def armed(self, link: str, of_model: bool) -> bool:
        """Whether requests there may meet one, so that the gateway must know them whole."""
        return any(matcher.armed(link, of_model) for matcher in self._matchers.values())

    def needs_body(self, link: str) -> bool:
        """Whether one reads bodies there beyond what the fingerprint takes."""
        return any(matcher.needs_body(link) for matcher in self._matchers.values())

    def add_link(self, link: str, links: Links) -> None:
        """Arms those that name the link, which was found; ``links`` has it, too."""
        for arm, matcher in self._matchers.items():
            matcher.add_link(link, _entries(self._settings[arm], links))

    def met(self, incoming: IncomingTry, *, whole: bool) -> list[ShadowMet]:
        """What the try would have met in each arm. To be called once for each try, as a matcher is.

        ``whole``: the request that the faults see is all of it. What the arm's blast radius spares is none.
        """
        called = incoming.attempt, incoming.link, incoming.fingerprint, incoming.call
        return [
            ShadowMet(arm, met.id, met.fault.name)
            for arm, matcher in self._matchers.items()
            if (plan := plan_try(matcher.match(incoming).met, whole=whole)).met_faults
            if not plan.acts or self._struck[arm].may_strike(incoming.episode, called)
            for met in plan.met_faults
        ]


def _entries(settings: Settings, links: Links) -> list[Entry]:
    faults = read_canonical(settings.faults, settings.chaos_level).on(links).faults
    return [*chance_errors(settings, links.tool_names), *faults]


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
