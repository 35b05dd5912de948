"""Events of the proxy manager: links and toxics."""

from __future__ import annotations

from typing import Any, Literal

from wirefault.history.lines import BaseEvent, Clock
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

ToxicsAction = Literal["armed", "started", "ended", "healed", "repaired", "disturbed"]


class LinkOpened(BaseEvent, frozen=True, tag="link_opened"):
    """The subject called a server for the first time, and a ``link`` to it was opened."""

    t: Clock
    episode: str
    attempt: int
    link: Link
    toxics: list[PlannedToxic] = []  # now in force on it, read back


class ToxicsChanged(BaseEvent, frozen=True, tag="toxics_changed"):
    """A change of toxics by the manager, in force since a time between ``begun`` and ``t``."""

    t: Clock
    episode: str
    attempt: int
    action: ToxicsAction
    toxics: list[dict[str, Any]] = []  # read back afterwards
    detail: str = ""
    ended: list[PlannedToxic] = []  # toxics whose time ended
    begun: Clock = 0.0
    # toxics whose time began or whose strength changed, with the attributes of their current strength
    started: list[PlannedToxic] = []
