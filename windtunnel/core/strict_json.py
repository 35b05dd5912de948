"""JSON that is read strictly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object's pairs; raises ``ValueError`` for a key that is given twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} is given twice")
        found[key] = value
    return found
