"""What makes Python's JSON reader strict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object's pairs; raises ``ValueError`` for a key that is given twice."""
    unique_pairs: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique_pairs:
            raise ValueError(f"{key} is given twice")
        unique_pairs[key] = value
    return unique_pairs
