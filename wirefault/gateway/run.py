"""A run that has a lane: its settings, its history, and the faults that its requests may meet."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import urlsplit

from wirefault.core.errors import error_text
from wirefault.faults.catalogue.http.errors import HttpError
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.plan import plan_try
from wirefault.faults.sets.fault_set import Entry, FaultSet
from wirefault.faults.sets.presets import read_canonical
from wirefault.gateway.answered_writes import AnsweredWrites
from wirefault.gateway.budgets.enforcer import BudgetEnforcer, Charge, Spender
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.replayed_model import ReplayedModel
from wirefault.history.events import Event, FaultsSet, InterceptionFailed, ShadowMet, WhyNotIntercepted
from wirefault.history.lines import dump_event
from wirefault.history.writer import Writer
from wirefault.settings.episode_faults import is_outside_radius, plan_attempt, shadow_arms
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Link, Links

# One call of an episode: attempt, link, fingerprint, and its number among the calls with this fingerprint.
CallKey = tuple[int, str, str, int]


class ForeignLink(ValueError):
    """A fault for the lab's own servers on a link to a foreign one."""


class Run:
    """A run that has the lane. Raises ``ForeignLink``, or ``SettingsError``."""

    matcher: FaultMatcher
    """The armed faults."""
    configuration: int
    """Number of the armed fault set: 0 for the set in the run's settings."""
    shadows: Shadows | None
    """Faults of other arms, recorded and never applied; None without any."""
    model: Endpoint | None
    """Replaces the scripted model; None if the settings name no other."""
    budgets: BudgetEnforcer | None
    """None without limits."""
    writes: AnsweredWrites | None
    """Chooses who answers writes; None: their servers."""
    replay: ReplayedModel | None
    """Records or replays the model's replies; None: the model itself answers."""
    began: float
    """``perf_counter`` at its start."""
    key: bytes
    """Signs what the lab's own agent says about its requests."""
    failure: str
    """Why the lane is unfit to continue; empty while it is fit."""
    episodes_with_write: set[str]
    """Episodes in which an upstream has carried out a write."""
    function_sends: dict[str, bool]
    """By the path of a function of the subject: whether a call of it has sent a request, as far as known."""
    read_only_tools: dict[str, set[str]]
    """By link: the tools that its MCP server annotates as read-only."""

    def __init__(
        self,
        run_id: str,
        settings: Settings,
        writer: Writer,
        model: Endpoint | None,
        links: Links,
        budgets: BudgetEnforcer | None = None,
        key: bytes = b"",
    ) -> None:
        self.run_id = run_id
        self.key = key
        self._links = links
        self.settings = settings
        self.settings_hash = settings.hash
        self.keeps_bodies = settings.bodies != "off"
        self.model = model
        self.budgets = budgets
        self.writes = AnsweredWrites.of(settings.audit_writes)
        self.replay = ReplayedModel.of(settings.audit_model)
        self._faults = read_canonical(settings.faults, settings.chaos_level)
        self.matcher = self._armed_with(self._faults)
        self.configuration = 0
        self.shadows = Shadows(settings, links) if settings.shadow else None
        self.failure = ""
        self.function_sends = {}
        self.episodes_with_write, self.read_only_tools = set(), {}
        self._writer = writer
        self._unwritten: list[Event] = []
        self._blast_radius = BlastRadius(settings)
        self.began = time.perf_counter()

    def in_blast_radius(self, episode: str, call: CallKey) -> bool:
        """Whether faults may act on that call of the episode; if so, it counts as faulted from now on."""
        return self._blast_radius.admits(episode, call)

    def configure(self, number: int, faults: FaultSet, episode: str, attempt: int) -> None:
        """Arm another fault set. Its counts start at 0; tries in progress keep their decision.

        The change is recorded under that attempt, unless the configuration is in force already. Raises
        ``ForeignLink`` and changes nothing then.
        """
        if number == self.configuration:
            return
        self.matcher, self.configuration = self._armed_with(faults), number
        self._faults = faults
        self.record(FaultsSet(time.time(), episode, attempt, number, faults.dump(), faults.ids))

    def add_link(self, link: Link) -> None:
        """Arm the faults on a link that was found. Raises ``ForeignLink`` and changes nothing then."""
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
        """Return the links on which the run's plan may have a toxic in that attempt.

        The gateway does not know which links the prompt needs.
        """
        if not (self.settings.toxic_prob or self._faults.toxics):
            return frozenset()
        links = self._links
        entries = self._faults.on(links).toxics
        plan = plan_attempt(self.settings, links.tool_names, episode, attempt, entries, 0)
        return frozenset(toxic.link for toxic in plan)

    def _armed_with(self, faults: FaultSet) -> FaultMatcher:
        return FaultMatcher(self.settings.seed, self._entries(faults))

    def _entries(self, faults: FaultSet) -> list[Entry]:
        """Return the faults on the current links, in the order of the set."""
        entries = [*chance_errors(self.settings, self._links), *faults.on(self._links).faults]
        for entry in entries:
            foreign = [name for name in entry.links if entry.fault.lab_only and self._is_foreign(name)]
            if foreign:
                raise ForeignLink(
                    f"the fault {entry.id} acts only on the lab's own servers, and the server behind link"
                    f" {foreign[0]} is not one of them: remove that link from its links, or set planted: true"
                    " for it in the wiring"
                )
        return entries

    def _is_foreign(self, name: str) -> bool:
        if name not in self._links:
            return False  # not found yet
        link = self._links[name]
        if link.takes_model and self.model is not None:
            return not self.model.is_lab
        return not (link.is_of_lab or link.planted)

    def admit(self, spender: Spender) -> tuple[Sequence[Entry], Charge | None]:
        """Return what the run's budgets do to a request, and its charge if they admit it."""
        try:
            return self.budgets.admit(spender, self.record) if self.budgets is not None else ((), None)
        except OSError as error:
            self.failure = self.failure or f"the run's budget cannot be kept: {error}"
            return (), None

    def settle_charge(self, charge: Charge, *, answered: bool) -> None:
        """Settle a request that was admitted. ``answered``: a model may have worked on it."""
        try:
            charge.settle(answered=answered, record=self.record)
        except OSError as error:
            self.failure = self.failure or f"the run's budget cannot be kept: {error}"

    def record(self, event: Event) -> None:
        """Append to the history, together with all other events of this turn of the loop.

        A killed process loses at most the events of one turn, whose replies may have been sent.
        """
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append(event)

    def record_no_interception(
        self, episode: str, attempt: int, link: Link, why: WhyNotIntercepted, detail: str
    ) -> None:
        """Record that the lab could not intercept the subject's connection to the link's server."""
        host = link.hosts[0] if link.hosts else urlsplit(link.upstream).netloc or link.name
        self.record(InterceptionFailed(time.time(), episode, attempt, link.name, host, why, detail))

    def flush(self) -> None:
        """Write now. After a failure the lane is unfit, and nothing is written behind the cut line."""
        events, self._unwritten = self._unwritten, []
        if not events or self.failure:
            return
        try:
            self._writer.write_lines(map(dump_event, events))
        except OSError as error:
            self.failure = f"the history cannot be written: {error_text(error)}"

    def close(self) -> None:
        self.flush()
        self._writer.close()


def chance_errors(settings: Settings, links: Links) -> list[Entry]:
    """Return the errors of ``ERROR_PROB`` on the tool links; without an id, since the schedule draws them."""
    fault = HttpError(chance=settings.error_prob, retry_after=settings.retry_after)
    entry = Entry(fault, links.with_tool_requests, tools_only=links.by_request)
    return [entry] if settings.error_prob else []


class BlastRadius:
    """The calls of a run that its faults may act on, within the limits of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._faulted: defaultdict[str, set[CallKey]] = defaultdict(set)

    def admits(self, episode: str, call: CallKey) -> bool:
        """Whether faults may act on that call of the episode; if so, it counts as faulted from now on."""
        if is_outside_radius(self._settings, episode):
            return False
        faulted, limit = self._faulted[episode], self._settings.fault_calls
        if limit and call not in faulted and len(faulted) >= limit:
            return False
        faulted.add(call)
        return True


class Shadows:
    """The faults of other arms: each try is matched against them for the record, and they never act."""

    def __init__(self, settings: Settings, links: Links) -> None:
        self._settings = shadow_arms(settings)
        self._matchers = {
            arm: FaultMatcher(shadow.seed, _shadow_entries(shadow, links))
            for arm, shadow in self._settings.items()
        }
        self._blast_radii = {arm: BlastRadius(shadow) for arm, shadow in self._settings.items()}

    def armed(self, link: str, *, of_model: bool) -> bool:
        """Whether such requests on that link may meet one, so that they must be read whole."""
        return any(matcher.armed(link, of_model=of_model) for matcher in self._matchers.values())

    def needs_body(self, link: str) -> bool:
        """Whether one reads more of the bodies on that link than the fingerprint does."""
        return any(matcher.needs_body(link) for matcher in self._matchers.values())

    def add_link(self, link: str, links: Links) -> None:
        """Arm the faults that name a link that was found; ``links`` includes it."""
        for arm, matcher in self._matchers.items():
            matcher.add_link(link, _shadow_entries(self._settings[arm], links))

    def match(self, incoming: IncomingTry, *, whole: bool) -> list[ShadowMet]:
        """Return what the try would have met in each arm. Call it once for each try, as a matcher.

        ``whole``: the faults see the whole request. Faults outside the arm's blast radius are left out.
        """
        call = incoming.counted_call or incoming.call
        fingerprint = incoming.counted_fingerprint or incoming.fingerprint
        called = incoming.attempt, incoming.link, fingerprint, call
        return [
            ShadowMet(arm, fault.id, fault.fault.name)
            for arm, matcher in self._matchers.items()
            if (plan := plan_try(matcher.match(incoming).met, whole=whole)).met_faults
            if not plan.acts or self._blast_radii[arm].admits(incoming.episode, called)
            for fault in plan.met_faults
        ]


def _shadow_entries(settings: Settings, links: Links) -> list[Entry]:
    faults = read_canonical(settings.faults, settings.chaos_level).on(links).faults
    return [*chance_errors(settings, links), *faults]
