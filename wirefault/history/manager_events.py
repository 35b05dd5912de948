"""What the proxy manager records: links that it opened, toxics that it changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from wirefault.history.usual import usually
from wirefault.toxiproxy.planned import PlannedToxic

ToxicsAction = Literal["armed", "started", "ended", "healed", "repaired", "disturbed"]


@dataclass(frozen=True)
class LinkOpened:
    """In this attempt the subject called a server for the first time, and a ``link`` to it was made.

    ``toxics``: those of the plan that the attempt has on it from now on, which were read back.
    """

    t: float
    episode: str
    attempt: int
    link: dict[str, Any]
    toxics: Annotated[list[PlannedToxic], usually([])]
    event: Literal["link_opened"] = "link_opened"


@dataclass(frozen=True)
class ToxicsChanged:
    """What the manager did to Toxiproxy, and in ``toxics`` what it read back afterwards.

    ``action``: armed; started (the time of some planned toxics had come, which are in ``started`` with the
    attributes of their dose, or they got another dose; others may have ended at the same moment); ended (the
    time of those in ``ended`` was over); healed, repaired, disturbed. ``begun``: when it began with that
    change, so that it came into force between then and ``t``.
    """

    t: float
    episode: str
    attempt: int
    action: ToxicsAction
    toxics: Annotated[list[dict[str, Any]], usually([])]
    detail: str = ""
    ended: list[PlannedToxic] = field(default_factory=list)
    begun: float = 0.0
    started: list[PlannedToxic] = field(default_factory=list)
    event: Literal["toxics_changed"] = "toxics_changed"
