"""The lab's own errors, drawn for each try at a tool."""

from __future__ import annotations

from wirefault.faults.catalogue.http.http_error import HttpError
from wirefault.faults.sets.fault_set import Entry
from wirefault.settings.settings import Settings


def chance_errors(settings: Settings, tools: tuple[str, ...]) -> list[Entry]:
    """Those of ``ERROR_PROB`` on the tool links. Without an id, so that their draws are the schedule's."""
    fault = HttpError(chance=settings.error_prob, retry_after=settings.retry_after)
    return [Entry(fault, tools)] if settings.error_prob else []
