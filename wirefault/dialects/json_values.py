"""Reads JSON of any shape: a value of an unexpected type reads as empty. Pure."""

from __future__ import annotations

import json
from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, without its other items."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: Any) -> str:
    """The string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def index_in(value: dict[str, Any]) -> int:
    """The object's ``index``; 0 without one."""
    index = value.get("index")
    return index if isinstance(index, int) else 0


def parsed(source: str | bytes) -> Any:
    """The JSON in it. Raises ``ValueError``, also if it is nested too deep."""
    try:
        return json.loads(source)
    except RecursionError:
        raise ValueError("nested too deep") from None


def is_json(source: str) -> bool:
    """Whether it can be parsed."""
    try:
        parsed(source)
    except ValueError:
        return False
    return True


def compact(value: Any) -> str:
    """JSON text as models write it."""
    return json.dumps(value, ensure_ascii=False)
