"""The catalogue of faults at the gateway: a class each, listed by family.

To add one, write a class with a docstring and list it in its family: see docs/extending.md.
"""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.context import CONTEXT_FAULTS
from wirefault.faults.catalogue.http import HTTP_FAULTS
from wirefault.faults.catalogue.mcp import MCP_FAULTS
from wirefault.faults.catalogue.meaning import MEANING_FAULTS
from wirefault.faults.catalogue.model import MODEL_FAULTS
from wirefault.faults.catalogue.websocket import WEBSOCKET_FAULTS

FAULTS: tuple[type[Fault], ...] = (
    *HTTP_FAULTS,
    *MEANING_FAULTS,
    *MODEL_FAULTS,
    *CONTEXT_FAULTS,
    *MCP_FAULTS,
    *WEBSOCKET_FAULTS,
)
