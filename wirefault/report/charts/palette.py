"""One colour for each outcome and each kind of fault, the same in every chart.

An outcome's colour stands in its row of ``wirefault.judging.oracle.outcome``. Faults have Tol's light
scheme, made for areas behind dark marks, which colour-blind eyes can tell apart too. The catalogue has more
faults than an eye has colours: most share the colour of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wirefault.faults.catalogue import FAULTS
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.toxiproxy.toxics import TOXICS

INK = "#1f2933"
MUTED = "#5f6c7b"
FAINT = "#d3dae1"
GHOST = "#f3f5f7"
CLEAN = "#7b8794"
FAILED = "#b3122d"
ACCENT = "#0072b2"

_OUTCOME_COLORS: Mapping[str, str] = {row.name: row.color for row in OUTCOMES.values()}
NOT_JUDGED = "not judged"

FAULT_COLORS: dict[str, str] = {
    **{toxic.kind: toxic.color for toxic in TOXICS if toxic.color},
    "server_error": "#7b3294",
    "unavailable": "#a36bb8",
    "rate_limit": "#c2a5cf",
    # groups of the catalogue's other faults
    "other_error": "#e3d3ea",
    "delayed": "#44bb99",
    "lost_or_cut": "#88ccee",
    "wrong_in_form": "#999933",
    "wrong_in_content": "#cc6677",
    "model_misled": "#c49a6c",
    "context_changed": "#8da0cb",
}
OTHER = "#d0c9a8"


def outcome_color(name: str) -> str:
    return _OUTCOME_COLORS.get(name, OTHER)


def fault_color(kind: str | None) -> str:
    """The colour of a kind of fault; ``None``, no fault, is the grey of a clean try."""
    return CLEAN if kind is None else FAULT_COLORS.get(kind, OTHER)


def in_order(names: Collection[str], known: Collection[str]) -> list[str]:
    """Known names in the palette's order, then the others by name."""
    return [name for name in known if name in names] + sorted(set(names) - set(known))


_BY_NAME: Mapping[str, str] = {
    name: group
    for group, names in {
        "other_error": (
            "status quota auth_error forbidden not_found bad_gateway overloaded flap"
            " context_length tool_use_failed content_filter tool_error rpc_error unknown_session"
        ),
        "delayed": "delay slow_body slow_first_token slow_tokens late_response slow_progress",
        "lost_or_cut": (
            "hang reset lose_request lose_reply truncate api_timeout stream_cut stream_hang early_end"
            " ended_stream server_death lost_notification ignored_cancel"
        ),
        "wrong_in_form": (
            "malformed empty partial schema_drift corrupt_event duplicate_event malformed_tool_call"
            " duplicate_response wrong_id split_line garbage_line"
        ),
        "wrong_in_content": "stale changed_tools",
        "model_misled": "poisoned_description",
    }.items()
    for name in names.split()
}
_BY_FAMILY = {
    "meaning": "wrong_in_content",
    "model": "model_misled",
    "context": "context_changed",
    "http": "other_fault",
    "mcp": "other_fault",
}
_FAMILIES = {kind.name: kind.family for kind in FAULTS}


def group_of(kind: str) -> str:
    """What a fault is drawn as: itself where it has a colour, else the group that it belongs to."""
    if kind in FAULT_COLORS:
        return kind
    return _BY_NAME.get(kind) or _BY_FAMILY.get(_FAMILIES.get(kind, ""), "other_fault")
