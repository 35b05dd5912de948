"""Faults of the model's reply: provider errors, event streams, and content.

Stream faults edit events as they pass. Content faults collect the whole stream and write a new one, so that
its first event is sent after the model's last.
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
from wirefault.faults.catalogue.model.memory import MemoryExhaustion
from wirefault.faults.catalogue.model.mixed_calls import MixedCalls
from wirefault.faults.catalogue.model.provider import (
    ApiTimeout,
    ContentFilter,
    ContextLength,
    TokenLimit,
    ToolUseFailed,
)
from wirefault.faults.catalogue.model.streams import (
    CorruptEvent,
    DuplicateEvent,
    EarlyEnd,
    SlowFirstToken,
    SlowTokens,
    StreamCut,
    StreamError,
    StreamHang,
    SwapEvents,
)

MODEL_FAULTS: tuple[type[Fault], ...] = (
    ApiTimeout,
    ContextLength,
    ToolUseFailed,
    ContentFilter,
    TokenLimit,
    MemoryExhaustion,
    StreamCut,
    StreamHang,
    StreamError,
    SlowFirstToken,
    SlowTokens,
    DuplicateEvent,
    CorruptEvent,
    SwapEvents,
    EarlyEnd,
    MalformedToolCall,
    UnknownTool,
    WrongArguments,
    RepeatedToolCall,
    MixedCalls,
    EmptyAnswer,
    Hallucination,
    IncorrectReasoning,
    OffTopic,
    InfiniteLoop,
    StuckPattern,
    RefusingProgress,
)
