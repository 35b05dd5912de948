"""One colour for each outcome and each kind of fault, the same in every chart.

An outcome's colour stands in its row of ``windtunnel.judging.oracle.outcome``. Faults have Tol's light
scheme, made for areas behind dark marks, which colour-blind eyes can tell apart too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windtunnel.judging.oracle.outcome import OUTCOMES
from windtunnel.toxiproxy.toxics import TOXICS

INK = "#1f2933"
MUTED = "#5f6c7b"
FAINT = "#d3dae1"
GHOST = "#f3f5f7"
CLEAN = "#7b8794"
FAILED = "#b3122d"
ACCENT = "#0072b2"

_OUTCOME_COLORS: Mapping[str, str] = {row.name: row.color for row in OUTCOMES.values()}
NOT_JUDGED = "not judged"

FAULTS: dict[str, str] = {
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
    return CLEAN if kind is None else FAULTS.get(kind, OTHER)


def in_order(names: Collection[str], known: Collection[str]) -> list[str]:
    """Known names in the palette's order, then the others by name."""
    return [name for name in known if name in names] + sorted(set(names) - set(known))
