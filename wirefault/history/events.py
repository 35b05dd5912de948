"""The typed events of a run's history.

Times ``t``, ``start`` and ``end`` are seconds since the epoch; ``*_ms`` are milliseconds of the writing
process's monotonic clock.

The runner writes ``agent-<lane>.jsonl``: the run, its episodes and attempts, and on behalf of the subject its
calls and its report. The gateway writes ``gateway-<lane>.jsonl``, the proxy manager ``manager-<lane>.jsonl``,
and the ingress, which accepts intercepted connections, ``ingress-<lane>.jsonl``.
"""

from __future__ import annotations

from wirefault.history.judged_events import EpisodeJudged
from wirefault.history.link_events import (
    LAB_MODEL,
    TLS_ON_PLAIN,
    BudgetSpent,
    BudgetUnknown,
    BudgetWarned,
    ConnectionEnded,
    Exchange,
    FaultedReply,
    FaultMet,
    FaultsSet,
    HowEnded,
    InterceptionFailed,
    LateRequest,
    LinkOpened,
    ShadowMet,
    SocketMessage,
    TapKind,
    ToxicsAction,
    ToxicsChanged,
    WhyNotIntercepted,
)
from wirefault.history.run_events import (
    EXIT_CODE,
    ONLY_HTTP2,
    SELF_TEST,
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EndedBy,
    EpisodeStarted,
    ErrorClass,
    Level,
    ModelCall,
    NeverCalled,
    Note,
    PipeServer,
    RecoveryTried,
    RefusalReason,
    Report,
    RunFinished,
    RunSealed,
    RunStarted,
    SealedFile,
    ShadowToxic,
    SubjectKilled,
    SubjectResumed,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    TurnStarted,
    WentPastLab,
    WorldProbed,
    WorldRead,
)

__all__ = [
    "EXIT_CODE",
    "LAB_MODEL",
    "ONLY_HTTP2",
    "SELF_TEST",
    "TLS_ON_PLAIN",
    "AttemptArmed",
    "AttemptEnded",
    "AttemptHealed",
    "BudgetSpent",
    "BudgetUnknown",
    "BudgetWarned",
    "ConnectionEnded",
    "EndedBy",
    "EpisodeJudged",
    "EpisodeStarted",
    "ErrorClass",
    "Event",
    "Exchange",
    "FaultMet",
    "FaultedReply",
    "FaultsSet",
    "HowEnded",
    "InterceptionFailed",
    "LateRequest",
    "Level",
    "LinkOpened",
    "ModelCall",
    "NeverCalled",
    "Note",
    "PipeServer",
    "RecoveryTried",
    "RefusalReason",
    "Report",
    "RunFinished",
    "RunSealed",
    "RunStarted",
    "SealedFile",
    "ShadowMet",
    "ShadowToxic",
    "SocketMessage",
    "SubjectKilled",
    "SubjectResumed",
    "TapKind",
    "ToolCallRefused",
    "ToolCalled",
    "ToolTry",
    "ToxicsAction",
    "ToxicsChanged",
    "TurnStarted",
    "WentPastLab",
    "WhyNotIntercepted",
    "WorldProbed",
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
    | RecoveryTried
    | SubjectKilled
    | SubjectResumed
    | AttemptEnded
    | TurnStarted
    | WentPastLab
    | PipeServer
    | AttemptHealed
    | WorldRead
    | WorldProbed
    | EpisodeJudged
    | RunFinished
    | RunSealed
    | Note
    | Exchange
    | FaultsSet
    | BudgetWarned
    | BudgetSpent
    | BudgetUnknown
    | LinkOpened
    | ToxicsChanged
    | ConnectionEnded
    | InterceptionFailed
    | LateRequest
    | SocketMessage
)
