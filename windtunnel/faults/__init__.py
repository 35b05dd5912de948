"""The catalogue of faults at the gateway: one small file or class each, registered in one list.

Adding one is a class with a docstring and an entry here: see docs/adding-a-fault.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.faults.base import Act, Changed, EventEditor, Fault, Miss, Try
from windtunnel.faults.http.truncate import Truncate
from windtunnel.faults.message import Play, Reply, Request

FAULTS: tuple[type[Fault], ...] = (Truncate,)

REGISTRY: Mapping[str, type[Fault]] = {fault.name: fault for fault in FAULTS}

__all__ = [
    "FAULTS",
    "REGISTRY",
    "Act",
    "Changed",
    "EventEditor",
    "Fault",
    "Miss",
    "Play",
    "Reply",
    "Request",
    "Try",
]
