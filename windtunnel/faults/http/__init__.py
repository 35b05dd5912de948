"""Faults of HTTP itself, on any link."""

from __future__ import annotations

from windtunnel.faults.base import Fault
from windtunnel.faults.http.delay import Delay
from windtunnel.faults.http.duplicate import DuplicateRequest
from windtunnel.faults.http.empty import Empty
from windtunnel.faults.http.flap import Flap
from windtunnel.faults.http.hang import Hang
from windtunnel.faults.http.lost import LoseReply, LoseRequest
from windtunnel.faults.http.malformed import Malformed
from windtunnel.faults.http.named import NAMED_ERRORS
from windtunnel.faults.http.partial import Partial
from windtunnel.faults.http.reset import Reset
from windtunnel.faults.http.schema_drift import SchemaDrift
from windtunnel.faults.http.slow_body import SlowBody
from windtunnel.faults.http.stale import Stale
from windtunnel.faults.http.status import Status
from windtunnel.faults.http.truncate import Truncate

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
