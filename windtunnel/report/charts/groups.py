"""Faults of a kind that a chart can tell apart: the catalogue has more of them than an eye has colours."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.faults.catalogue import FAULTS
from windtunnel.report.charts.palette import FAULTS as COLOURED

_BY_NAME: Mapping[str, str] = {
    name: group
    for group, names in {
        "other_error": (
            "status quota auth_error forbidden not_found bad_gateway overloaded flap"
            " context_length tool_use_failed content_filter"
        ),
        "delayed": "delay slow_body slow_first_token slow_tokens",
        "lost_or_cut": (
            "hang reset lose_request lose_reply truncate api_timeout stream_cut stream_hang early_end"
        ),
        "wrong_in_form": (
            "malformed empty partial schema_drift corrupt_event duplicate_event malformed_tool_call"
        ),
        "wrong_in_content": "stale",
    }.items()
    for name in names.split()
}
_BY_FAMILY = {
    "meaning": "wrong_in_content",
    "model": "model_misled",
    "context": "context_changed",
    "http": "other_fault",
}
_FAMILIES = {kind.name: kind.family for kind in FAULTS}


def group_of(kind: str) -> str:
    """What a fault is drawn as: itself where it has a colour, else the group that it belongs to."""
    if kind in COLOURED:
        return kind
    return _BY_NAME.get(kind) or _BY_FAMILY.get(_FAMILIES.get(kind, ""), "other_fault")
