"""The catalogue of faults at the gateway: one small file or class each, registered in one list.

Adding one is a class with a docstring and an entry here: see docs/adding-a-fault.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.faults.base import Act, Changed, EventEditor, Fault, Miss, Try
from windtunnel.faults.context import CONTEXT_FAULTS
from windtunnel.faults.http import HTTP_FAULTS
from windtunnel.faults.meaning import MEANING_FAULTS
from windtunnel.faults.message import Play, Reply, Request
from windtunnel.faults.model import MODEL_FAULTS

FAULTS: tuple[type[Fault], ...] = (*HTTP_FAULTS, *MEANING_FAULTS, *MODEL_FAULTS, *CONTEXT_FAULTS)

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
