"""Faults of the model's reply: provider errors, event streams, and what the model says.

Stream faults see each event as it goes by. Faults of what the model says collect a stream and write it anew
as a stream, so that its first event comes when the model's last has.
"""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.model.answers import (
    EmptyAnswer,
    Hallucination,
    IncorrectReasoning,
    OffTopic,
    RefusingProgress,
    StuckPattern,
)
from wirefault.faults.catalogue.model.calls import (
    InfiniteLoop,
    MalformedToolCall,
    RepeatedToolCall,
    UnknownTool,
    WrongArguments,
)
from wirefault.faults.catalogue.model.provider import ApiTimeout, ContentFilter, ContextLength, ToolUseFailed
from wirefault.faults.catalogue.model.streams import (
    CorruptEvent,
    DuplicateEvent,
    EarlyEnd,
    SlowFirstToken,
    SlowTokens,
    StreamCut,
    StreamHang,
)

MODEL_FAULTS: tuple[type[Fault], ...] = (
    ApiTimeout,
    ContextLength,
    ToolUseFailed,
    ContentFilter,
    StreamCut,
    StreamHang,
    SlowFirstToken,
    SlowTokens,
    DuplicateEvent,
    CorruptEvent,
    EarlyEnd,
    MalformedToolCall,
    UnknownTool,
    WrongArguments,
    RepeatedToolCall,
    EmptyAnswer,
    Hallucination,
    IncorrectReasoning,
    OffTopic,
    InfiniteLoop,
    StuckPattern,
    RefusingProgress,
)
