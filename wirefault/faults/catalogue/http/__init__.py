"""Faults of HTTP itself, on any link."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.http.body import Empty, SlowBody, Truncate
from wirefault.faults.catalogue.http.broken_off import Hang, LoseReply, LoseRequest, Reset
from wirefault.faults.catalogue.http.delay import Delay
from wirefault.faults.catalogue.http.duplicate import DuplicateRequest
from wirefault.faults.catalogue.http.flap import Flap
from wirefault.faults.catalogue.http.malformed import Malformed
from wirefault.faults.catalogue.http.named import NAMED_ERRORS
from wirefault.faults.catalogue.http.partial import Partial
from wirefault.faults.catalogue.http.schema_drift import SchemaDrift
from wirefault.faults.catalogue.http.stale import Stale
from wirefault.faults.catalogue.http.status import Status

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
)
