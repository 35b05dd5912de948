"""The faults of other arms that a run evaluates as they would be there, and never applies."""

from __future__ import annotations

from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.plan import plan_try
from wirefault.faults.sets.canonical import read_canonical
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.chance_errors import chance_errors
from wirefault.gateway.struck_calls import StruckCalls
from wirefault.history.events import ShadowMet
from wirefault.settings.settings import Settings
from wirefault.settings.shadow import shadows_of
from wirefault.wiring.links import Links


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
