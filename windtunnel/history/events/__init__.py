"""What happens in a run, as typed events: the words of its history.

Times ``t``, ``start`` and ``end`` are seconds since the epoch; ``*_ms`` are milliseconds of a monotonic
clock of the process that wrote them.

One module for each of those who write them.
"""

from __future__ import annotations

from windtunnel.history.events.gateway import Exchange, FaultMet, FaultsSet
from windtunnel.history.events.manager import ToxicsChanged
from windtunnel.history.events.runner import (
    SELF_TEST,
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeJudged,
    EpisodeStarted,
    Level,
    Note,
    RunFinished,
    RunStarted,
    WorldRead,
)
from windtunnel.history.events.subject import (
    EndedBy,
    ModelCall,
    RefusedBecause,
    Report,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
)

__all__ = [
    "SELF_TEST",
    "AttemptArmed",
    "AttemptEnded",
    "AttemptHealed",
    "EndedBy",
    "EpisodeJudged",
    "EpisodeStarted",
    "Event",
    "Exchange",
    "FaultMet",
    "FaultsSet",
    "Level",
    "ModelCall",
    "Note",
    "RefusedBecause",
    "Report",
    "RunFinished",
    "RunStarted",
    "ToolCallRefused",
    "ToolCalled",
    "ToolTry",
    "ToxicsChanged",
    "WorldRead",
]

Event = (
    RunStarted
    | EpisodeStarted
    | AttemptArmed
    | ModelCall
    | ToolTry
    | ToolCalled
    | ToolCallRefused
    | AttemptEnded
    | AttemptHealed
    | WorldRead
    | EpisodeJudged
    | RunFinished
    | Note
    | Exchange
    | FaultsSet
    | ToxicsChanged
)
