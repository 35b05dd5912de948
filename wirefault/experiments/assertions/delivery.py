"""Assertions on the lab itself: whether the faults came to what they were aimed at."""

from __future__ import annotations

from pydantic import Field, model_validator

from wirefault.experiments.assertions.assertion import Figure, Over, SummableLimit
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.expression import Bounds, Truth


class FaultsDelivered(SummableLimit):
    """So many faults were delivered: seen by the side that they were aimed at."""

    name = "faults_delivered"
    main = "at_least"
    needs = "for toxics, a subject that records its tries, or the ingress"
    link_keys = ("link",)

    at_least: int = Field(1, ge=1)
    kind: str = Field("", description="of that kind alone, such as rate_limit")
    link: str = Field("", description="on that link alone")
    over: Over = Field("arm", description="of all episodes of an arm together, or of each one")

    @property
    def expected(self) -> str:
        return f"at least {self.at_least}" + (f" {self.kind}" if self.kind else "")

    def figure(self, view: EpisodeView) -> Figure:
        faults = [
            fault for fault in view.faults if self.kind in ("", fault.kind) and self.link in ("", fault.link)
        ]
        sure = sum(fault.delivered is True for fault in faults)
        unclear = sum(fault.delivered is None for fault in faults)
        gap = f"whether {unclear} faults were delivered is not known" if unclear else ""
        struck = [
            id
            for sent in view.sent
            for id in sent.ids
            if sent.fault_kinds and self.kind in ("", *sent.fault_kinds) and self.link in ("", sent.link_name)
        ]
        return Figure(Bounds(sure, sure + unclear), tuple(struck), gap)

    def holds(self, figure: Figure) -> Truth:
        return figure.at_least(self.at_least)

    @model_validator(mode="after")
    def _is_of_episodes(self) -> FaultsDelivered:
        if self.turn is not None:
            raise ValueError("turn: faults are counted in whole episodes")
        return self
