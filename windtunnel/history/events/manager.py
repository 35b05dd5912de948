"""What the proxy manager writes (``manager-<lane>.jsonl``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class ToxicsChanged:
    """What the manager did to Toxiproxy and read back. ``action``: armed, healed, repaired, disturbed."""

    t: float
    episode: str
    attempt: int
    action: Literal["armed", "healed", "repaired", "disturbed"]
    toxics: list[dict[str, Any]]
    detail: str = ""
    event: Literal["toxics_changed"] = "toxics_changed"
