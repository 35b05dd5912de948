"""Faults of HTTP itself, on any link."""

from __future__ import annotations

from windtunnel.faults.base import Fault
from windtunnel.faults.catalogue.http.body import Empty, SlowBody, Truncate
from windtunnel.faults.catalogue.http.broken_off import Hang, LoseReply, LoseRequest, Reset
from windtunnel.faults.catalogue.http.delay import Delay
from windtunnel.faults.catalogue.http.duplicate import DuplicateRequest
from windtunnel.faults.catalogue.http.flap import Flap
from windtunnel.faults.catalogue.http.malformed import Malformed
from windtunnel.faults.catalogue.http.named import NAMED_ERRORS
from windtunnel.faults.catalogue.http.partial import Partial
from windtunnel.faults.catalogue.http.schema_drift import SchemaDrift
from windtunnel.faults.catalogue.http.stale import Stale
from windtunnel.faults.catalogue.http.status import Status

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
