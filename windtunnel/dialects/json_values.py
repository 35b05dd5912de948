"""Reading JSON of any shape without surprises. Pure."""

from __future__ import annotations

import json
from typing import Any


def obj(value: Any) -> dict[str, Any]:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [one for one in items(value) if isinstance(one, dict)]


def text(value: Any) -> str:
    """The string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def parsed(source: str | bytes) -> Any:
    """The JSON in it. Raises ``ValueError``, also for what is nested too deep."""
    try:
        return json.loads(source)
    except RecursionError:
        raise ValueError("nested too deep") from None


def is_json(source: str) -> bool:
    try:
        parsed(source)
    except ValueError:
        return False
    return True


def compact(value: Any) -> str:
    """JSON text as models write it."""
    return json.dumps(value, ensure_ascii=False)
