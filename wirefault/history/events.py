"""The typed events of a run's history.

Times ``t``, ``start`` and ``end`` are seconds since the epoch; ``*_ms`` are milliseconds of the writing
process's monotonic clock.

The runner writes ``agent-<lane>.jsonl``: the run, its episodes and attempts, and on behalf of the subject its
calls and its report. The gateway writes ``gateway-<lane>.jsonl``, the proxy manager ``manager-<lane>.jsonl``,
and the ingress, which accepts intercepted connections, ``ingress-<lane>.jsonl``.
"""

from __future__ import annotations

from wirefault.history.agent_events import (
    ModelCall,
    RecoveryTried,
    RefusalReason,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
)
from wirefault.history.gateway_events import (
    LAB_MODEL,
    TLS_ON_PLAIN,
    BudgetSpent,
    BudgetUnknown,
    BudgetWarned,
    ConnectionUnanswered,
    Exchange,
    FaultedReply,
    FaultMet,
    FaultsSet,
    InterceptionFailed,
    LateRequest,
    ShadowMet,
    SocketMessage,
    WhyNotIntercepted,
)
from wirefault.history.ingress_events import ConnectionEnded, HowEnded, TapKind
from wirefault.history.judged_events import EpisodeJudged
from wirefault.history.manager_events import LinkOpened, ToxicsAction, ToxicsChanged
from wirefault.history.run_events import (
    EXIT_CODE,
    SELF_TEST,
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EndedBy,
    EpisodeStarted,
    ErrorClass,
    Level,
    NeverCalled,
    Note,
    Report,
    RunFinished,
    RunSealed,
    RunStarted,
    SealedFile,
    ShadowToxic,
    TurnStarted,
    WorldProbed,
    WorldRead,
)
from wirefault.history.subject_events import (
    ONLY_HTTP2,
    PipeServer,
    SubjectKilled,
    SubjectResumed,
    WentPastLab,
)

Event = (
    ModelCall
    | ToolTry
    | ToolCalled
    | ToolCallRefused
    | SubjectKilled
    | SubjectResumed
    | RecoveryTried
    | RunStarted
    | EpisodeStarted
    | AttemptArmed
    | TurnStarted
    | AttemptEnded
    | PipeServer
    | WentPastLab
    | AttemptHealed
    | WorldRead
    | WorldProbed
    | EpisodeJudged
    | RunFinished
    | RunSealed
    | Note
    | Exchange
    | SocketMessage
    | LateRequest
    | FaultsSet
    | BudgetWarned
    | BudgetSpent
    | BudgetUnknown
    | ConnectionEnded
    | ConnectionUnanswered
    | InterceptionFailed
    | LinkOpened
    | ToxicsChanged
)
