"""A place in a JSON value, as ``choices.0.message``; and the JSON that a program prints. Pure."""

from __future__ import annotations

import json
from typing import Any


def value_at(value: Any, path: str) -> Any:
    """What is there: keys of objects and places in lists, from 0, with dots between; all of it for ``""``.

    Raises ``LookupError`` that names the part of the path where nothing is.
    """
    parts = path.split(".") if path else []
    for number, part in enumerate(parts, start=1):
        try:
            value = value[int(part)] if isinstance(value, list) else dict(value)[part]
        except (LookupError, TypeError, ValueError):
            raise LookupError(".".join(parts[:number])) from None
    return value


def last_object(text: str) -> dict[str, Any] | None:
    """The last line that is a JSON object, None if no line is one."""
    for line in reversed(text.splitlines()):
        if line.strip().startswith("{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    return None
