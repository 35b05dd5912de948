"""The catalogue of faults at the gateway: one small file or class each, registered in one list.

Adding one is a class with a docstring and an entry here: see docs/adding-a-fault.md.
"""

from __future__ import annotations

from windtunnel.faults.base import Fault
from windtunnel.faults.catalogue.context import CONTEXT_FAULTS
from windtunnel.faults.catalogue.http import HTTP_FAULTS
from windtunnel.faults.catalogue.mcp import MCP_FAULTS
from windtunnel.faults.catalogue.meaning import MEANING_FAULTS
from windtunnel.faults.catalogue.model import MODEL_FAULTS

FAULTS: tuple[type[Fault], ...] = (
    *HTTP_FAULTS,
    *MEANING_FAULTS,
    *MODEL_FAULTS,
    *CONTEXT_FAULTS,
    *MCP_FAULTS,
)
