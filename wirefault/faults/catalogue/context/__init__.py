"""Faults of what the model is shown: they change the request to it."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.context.history import (
    DropMessage,
    DuplicateMessage,
    ReorderHistory,
    StaleContext,
    TruncateHistory,
)
from wirefault.faults.catalogue.context.words import Encoding, InjectMessage, Noise, Overflow, UserInput

CONTEXT_FAULTS: tuple[type[Fault], ...] = (
    TruncateHistory,
    ReorderHistory,
    DropMessage,
    DuplicateMessage,
    InjectMessage,
    Noise,
    Encoding,
    StaleContext,
    Overflow,
    UserInput,
)
