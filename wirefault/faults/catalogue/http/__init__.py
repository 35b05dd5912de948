"""Faults at HTTP level, on any link."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.http.body import Empty, Malformed, SlowBody, Truncate
from wirefault.faults.catalogue.http.content import Partial, SchemaDrift, Stale
from wirefault.faults.catalogue.http.delivery import (
    Delay,
    DuplicateRequest,
    Flap,
    Hang,
    LoseReply,
    LoseRequest,
    Reset,
)
from wirefault.faults.catalogue.http.errors import NAMED_ERRORS, Status
from wirefault.faults.catalogue.http.kill import KillSubject

HTTP_FAULTS: tuple[type[Fault], ...] = (
    Status,
    *NAMED_ERRORS,
    Delay,
    Hang,
    Reset,
    LoseRequest,
    LoseReply,
    DuplicateRequest,
    Truncate,
    SlowBody,
    Malformed,
    Empty,
    Partial,
    SchemaDrift,
    Stale,
    Flap,
    KillSubject,
)
